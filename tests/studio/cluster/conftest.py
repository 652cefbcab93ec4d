"""One local cluster for all tests: two replicas of the bundled model with half a GPU each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.storage.conftest import migrated_postgresql, postgresql, postgresql_server

if TYPE_CHECKING:
    from studio.cluster.engine import ClusterEngine
    from studio.cluster.messages import DeploymentSettings

__all__ = ["migrated_postgresql", "postgresql", "postgresql_server"]


def settings() -> DeploymentSettings:
    """Settings of two replicas that share one of Ray's logical GPUs; the bundled model runs on the CPU."""
    from studio.cluster.messages import DeploymentSettings, EngineSettings

    return DeploymentSettings(EngineSettings("bundled", "cpu", slots=2), (2, 2), gpus=0.5, cpus=0.5)


@pytest.fixture(scope="session")
def cluster() -> Iterator[ClusterEngine]:
    from studio.cluster.deployment import NEW_CLUSTER, connect

    ray = pytest.importorskip("ray", reason="Ray Serve is not installed (pip install 'ray[serve]')")
    pytest.importorskip("ray.serve")
    made = connect(NEW_CLUSTER, settings(), cpus=4, gpus=1)
    yield made
    made.close()
    # Threads of Serve's that outlive the connection start no other cluster.
    with pytest.raises(ray.exceptions.RaySystemError, match="has not been started"):
        ray.put(1)
