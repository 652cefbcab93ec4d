"""Which deployment a process uses, by Serve's state of it; without a cluster."""

import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import EngineFailed
from studio.cluster import deployment
from studio.cluster.messages import DeploymentSettings, EngineSettings

OURS = DeploymentSettings(EngineSettings("bundled"), gpus=0.0)


class FakeServe:
    """Serve with an application in a state; counts deployments."""

    def __init__(self, status: str | None) -> None:
        self.deployed = 0
        self._applications = {} if status is None else {deployment.APPLICATION: SimpleNamespace(status=status)}

    def status(self) -> Any:
        return SimpleNamespace(applications=self._applications)

    def get_app_handle(self, name: str) -> str:
        return f"running {name}"

    def run(self, *_: object, **__: object) -> str:
        self.deployed += 1
        return "deployed"


@pytest.mark.parametrize("status", ["RUNNING", "UNHEALTHY", "DEPLOYING"])
def test_attaching_uses_the_deployment_while_replicas_are_replaced(status: str) -> None:
    serve = FakeServe(status)
    assert deployment._deploy(serve, OURS, attach=True) == "running reprise"
    assert serve.deployed == 0


@pytest.mark.parametrize("status", [None, "NOT_STARTED", "DEPLOY_FAILED", "DELETING"])
def test_attaching_deploys_where_there_is_none(monkeypatch: pytest.MonkeyPatch, status: str | None) -> None:
    serve = FakeServe(status)
    monkeypatch.setattr(deployment, "application", lambda _settings: None)
    assert deployment._deploy(serve, OURS, attach=True) == "deployed"


def test_failed_deployment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise RuntimeError("no room")

    serve = FakeServe(None)
    monkeypatch.setattr(deployment, "application", lambda _settings: None)
    monkeypatch.setattr(serve, "run", fail)
    with pytest.raises(EngineFailed, match="no room"):
        deployment._deploy(serve, OURS, attach=True)


def test_connecting_process_stays_within_its_containers_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """It examines clips, but loads no model, which would see to it."""
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed (pip install 'ray[serve]')")
    limited: list[bool] = []
    monkeypatch.setattr(deployment, "use_container_cores", lambda: limited.append(True))
    with pytest.raises(EngineFailed):
        deployment.connect("127.0.0.1:1", OURS)
    assert limited


def test_cluster_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.")  # Ray's own, of no other class

    ended: list[bool] = []
    monkeypatch.setattr(os, "environ", dict(os.environ))
    ray = SimpleNamespace(init=fail, shutdown=lambda: ended.append(True))
    with pytest.raises(EngineFailed, match="could not be started on the cluster: The current node timed out"):
        deployment._connect(ray, deployment.NEW_CLUSTER, None, None)
    assert ended


@pytest.mark.parametrize("address", ["nowhere.invalid:6379", "127.0.0.1:1", "[::1:6379", "127.0.0.1:port"])
def test_cluster_that_cannot_be_reached_is_named(address: str) -> None:
    """Ray itself would wait for it without end."""
    ray = SimpleNamespace(init=lambda *_, **__: pytest.fail("Ray was asked"))
    with pytest.raises(EngineFailed, match="no cluster at"):
        deployment._connect(ray, address, None, None)


def test_reachable_cluster_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        ray = SimpleNamespace(init=lambda place, **_: asked.append(place))
        assert not deployment._connect(ray, address, None, None)
    assert asked == [address]
