"""Which deployment a process uses, by Serve's state of it; without a cluster."""

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
    assert deployment._deployed(serve, OURS, attach=True) == "running reprise"
    assert serve.deployed == 0


@pytest.mark.parametrize("status", [None, "NOT_STARTED", "DEPLOY_FAILED", "DELETING"])
def test_attaching_deploys_where_there_is_none(monkeypatch: pytest.MonkeyPatch, status: str | None) -> None:
    serve = FakeServe(status)
    monkeypatch.setattr(deployment, "application", lambda _settings: None)
    assert deployment._deployed(serve, OURS, attach=True) == "deployed"


def test_failed_deployment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise RuntimeError("no room")

    serve = FakeServe(None)
    monkeypatch.setattr(deployment, "application", lambda _settings: None)
    monkeypatch.setattr(serve, "run", fail)
    with pytest.raises(EngineFailed, match="no room"):
        deployment._deployed(serve, OURS, attach=True)
