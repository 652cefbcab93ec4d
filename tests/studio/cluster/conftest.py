"""One cluster on this machine for all tests of it: two replicas of the bundled model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.storage.conftest import migrated_postgresql, postgresql, postgresql_server

if TYPE_CHECKING:
    from studio.cluster.deployment import ClusterSettings
    from studio.cluster.engine import ClusterEngine

__all__ = ["migrated_postgresql", "postgresql", "postgresql_server"]


def settings() -> ClusterSettings:
    from studio.cluster.deployment import LOCAL, ClusterSettings
    from studio.cluster.messages import EngineSettings

    return ClusterSettings(LOCAL, EngineSettings("bundled", "cpu", slots=2), (2, 2), gpus=0.0, cpus=0.5, cluster_cpus=4)


@pytest.fixture(scope="session")
def cluster() -> Iterator[ClusterEngine]:
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed (pip install 'ray[serve]')")
    from studio.cluster.deployment import connect

    made = connect(settings())
    yield made
    made.close()
