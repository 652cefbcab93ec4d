"""Models, health and metrics."""

import httpx
import pytest
from fastapi.testclient import TestClient

from api.app import create_api
from engine import __version__
from tests.api.conftest import Server


def test_loaded_model_has_several_names(client: httpx.Client) -> None:
    models = client.get("/v1/models").json()
    assert models["object"] == "list"
    names = [model["id"] for model in models["data"]]
    assert names == ["bundled", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"]
    for model in models["data"]:
        assert client.get(f"/v1/models/{model['id']}").json() == model
        assert model["object"] == "model"
    assert models["models"] == [{"id": name} for name in names]
    assert client.get("/v1/audio/models").json() == models
    unknown = client.get("/v1/models/fishaudio/s2-pro")
    assert unknown.status_code == 404
    assert unknown.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models", 200),
        ("GET", "/v1/audio/voices", 200),
        ("GET", "/audio/voices", 200),
        ("GET", "/v1/audio/voices/Adam", 200),
        ("POST", "/v1/audio/speech", 415),
        ("POST", "/v1/tts", 415),
        ("PUT", "/mcp", 405),
        ("GET", "/health", 200),
        ("GET", "/metrics", 200),
        ("GET", "/v1/nothing", 404),
    ],
)
def test_final_slash_changes_nothing(client: httpx.Client, method: str, path: str, status: int) -> None:
    """Not even by a redirect, which many clients do not follow with a body."""
    headers = {"Content-Type": "text/plain"}
    assert [client.request(method, each, headers=headers).status_code for each in (path, f"{path}/")] == [status] * 2


@pytest.mark.parametrize("joined", ["//v1/models", "/v1//models", "//v1//models/"])
def test_base_url_may_end_in_a_slash(client: httpx.Client, server: Server, joined: str) -> None:
    """Many clients join it to a path that begins with one."""
    assert client.get(f"{server.url}{joined}").json() == client.get("/v1/models").json()


def test_lists_with_a_final_slash_need_no_key_either(client: httpx.Client, server: Server) -> None:
    with server.key():
        assert client.get("/v1/audio/voices/").status_code == 200
        assert client.get("/v1/audio/voices/Adam/").status_code == 401
        assert client.get(f"{server.url}//v1//models").status_code == 401


def test_other_servers_start_and_end_the_application(server: Server) -> None:
    with TestClient(create_api(server.app, lambda *_: True)) as client:
        assert client.get("/health/ready").status_code == 200


def test_health_needs_no_key(client: httpx.Client, server: Server) -> None:
    with server.key():
        for path in ("/health/live", "/health/ready", "/health"):
            assert client.get(path, headers={"Host": "10.0.0.7"}).json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/health/live", "/health", "/v1/models", "/v1/audio/voices", "/metrics"])
def test_head_is_answered_like_get(client: httpx.Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert int(head.headers["content-length"]) > 0


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/audio/voices", "GET, POST"),
        ("PATCH", "/v1/audio/voices/Adam", "DELETE, GET"),
        ("OPTIONS", "/v1/audio/speech", "POST"),
        ("HEAD", "/v1/audio/speech", "POST"),
        ("PUT", "/mcp", "POST"),
        ("DELETE", "/health/live", "GET"),
        ("TRACE", "/v1/audio/speech", "POST"),
        ("BREW", "/v1/audio/voices", "GET, POST"),
    ],
)
def test_other_methods_are_refused_with_those_allowed(
    client: httpx.Client, method: str, path: str, allowed: str
) -> None:
    refused = client.request(method, path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        error = refused.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"] == f"“{method}” is not possible at {path}; use {allowed.replace(', ', ' or ')}."
        assert "x-request-id" in refused.headers


def test_unknown_path_is_named(client: httpx.Client) -> None:
    """A base URL with one “/v1” too many is a common mistake."""
    refused = client.post("/v1/v1/audio/speech", json={"input": "Hi."})
    assert refused.status_code == 404
    assert refused.json()["error"]["message"] == (
        "There is no operation at /v1/v1/audio/speech; /v1/openapi.json lists those that there are."
    )


def test_preflight_gets_no_permission(client: httpx.Client) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    for path in ("/v1/audio/speech", "/v1/audio/voices", "/v1/gradio/gradio_api/queue/join", "/mcp", "/health"):
        refused = client.options(path, headers=headers)
        assert refused.status_code in (401, 405)
        assert not [name for name in refused.headers if name.startswith("access-control")]


def test_server_without_a_model_is_not_ready(client: httpx.Client, server: Server) -> None:
    manager = server.app.engine
    engine, manager._current.engine = manager._current.engine, None
    try:
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 503
        spoken = client.post("/v1/audio/speech", json={"input": "Hi.", "voice": "Clara"})
        assert (spoken.status_code, spoken.json()["error"]["code"]) == (503, "no_model")
        assert spoken.headers["retry-after"]
    finally:
        manager._current.engine = engine
    assert client.get("/health/ready").status_code == 200


def test_model_unloaded_because_idle_is_ready(
    client: httpx.Client, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(server.app.engine._current, "engine", None)
        patch.setattr(server.app.engine._current, "asleep", True)
        for path in ("/health/ready", "/health"):
            assert client.get(path).json() == {"status": "ok"}


def test_metrics_contain_the_engine_state(client: httpx.Client, server: Server) -> None:
    client.get("/v1/models")
    client.get("/v1/whatever")
    text = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    assert float(values["reprise_slots"]) == server.app.engine.info.slots
    assert float(values["reprise_queue"]) == 0
    assert float(values[f'reprise_build_info{{version="{__version__}"}}']) == 1
    assert float(values['reprise_requests_total{operation="list_models",status="200"}']) >= 1
    assert float(values['reprise_requests_total{operation="none",status="404"}']) >= 1
    assert float(values["process_resident_memory_bytes"]) > 1e8
    assert "whatever" not in text
