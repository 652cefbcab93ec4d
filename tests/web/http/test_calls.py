"""Validation of request bodies for Gradio's routes: only bodies that the page sends are accepted."""

import json
from pathlib import Path
from typing import Any

import pytest

from storage import Storage
from tests.support.fake_engine import FakeEngine
from tests.web.conftest import make_context
from web.http.calls import ITEMS, NO_FILE, CallRejected, CallValidator
from web.page import create_app

SESSION = "x1k9z"
QUICK, QUEUED, SCRIPT_ALONE = 0, 1, 2  # events of `config`
PART = 5


@pytest.fixture
def calls(tmp_path: Path) -> CallValidator:
    def event(id: int, **more: Any) -> dict[str, Any]:
        return {"id": id, "inputs": [1, 2], "backend_fn": True, "queue": False, **more}

    events = [event(QUICK), event(QUEUED, queue=True), event(SCRIPT_ALONE, backend_fn=False)]
    part = {"id": PART, "props": {"server_fns": ["clip_peaks"]}}
    config = {"dependencies": events, "components": [part, {"id": 6, "props": {}}]}
    return CallValidator(config, tmp_path, version="v1")


def rejection_status(calls: CallValidator, call: str, body: bytes | str | dict[str, Any]) -> int:
    """Return the status of the rejection; 0 if the call is accepted."""
    sent = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    try:
        calls.check(f"/gradio_api/{call}", sent)
    except CallRejected as error:
        return error.status
    return 0


def quick(**changes: Any) -> dict[str, Any]:
    return {
        "data": ["a", None],
        "fn_index": QUICK,
        "session_hash": SESSION,
        "event_data": None,
        "trigger_id": 3,
        **changes,
    }


def server(**changes: Any) -> dict[str, Any]:
    return {"data": {}, "component_id": PART, "fn_name": "clip_peaks", "session_hash": SESSION, **changes}


def test_calls_of_another_version_are_rejected_unread(calls: CallValidator) -> None:
    for version in ("v2", ""):
        with pytest.raises(CallRejected) as rejected:
            calls.check("/gradio_api/run/predict", b"{", version)
        assert rejected.value.status == 409
    calls.check("/gradio_api/run/predict", json.dumps(quick()).encode(), "v1")


def test_bodies_of_the_page_are_accepted(calls: CallValidator, tmp_path: Path) -> None:
    assert rejection_status(calls, "run/predict", quick()) == 0
    assert rejection_status(calls, "run/predict/", quick()) == 0
    calls.check("/proxied/gradio_api/run/predict", json.dumps(quick()).encode())
    assert rejection_status(calls, "run/predict", {"data": ["ü", 1.5], "fn_index": QUICK, "session_hash": SESSION}) == 0
    file = {"path": str(tmp_path / "ab12" / "clip 1.wav"), "meta": {"_type": "gradio.FileData"}}
    assert rejection_status(calls, "run/predict", quick(data=[file, None], event_data={"files": [file]})) == 0
    assert rejection_status(calls, "queue/join", quick(fn_index=QUEUED)) == 0
    assert rejection_status(calls, "queue/join", quick(fn_index=QUEUED, session_hash=None)) == 422
    assert rejection_status(calls, "component_server", server(data=file)) == 0


@pytest.mark.parametrize(
    "changes",
    [
        *({"fn_index": wrong} for wrong in (QUEUED, SCRIPT_ALONE, 99, -1, None, "0", 0.0, True, 2**70, [])),
        *({"data": wrong} for wrong in (None, {}, "ab", [], ["a"], ["a"] * 3, ["a"] * 99)),
        *({"session_hash": wrong} for wrong in ("", "A", "../x", "x" * 41, "\ud800", 7, "x\n")),
        *({"trigger_id": wrong} for wrong in ("3", -1, 2**70, 1.5, {})),
        *({"event_data": wrong} for wrong in (2**53 + 2, 1e300, [[]] * (ITEMS + 1))),
        *({wrong: None} for wrong in ("batched", "request", "simple_format", "event_id", "oauth_token", "__class__")),
    ],
)
def test_malformed_events_are_rejected(calls: CallValidator, changes: dict[str, Any]) -> None:
    assert rejection_status(calls, "run/predict", quick(**changes)) == 422


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\xfa", b"[" * 50_000, b"9" * 5_000, b"NaN", b'{"data":[1e999]}', b'{"data":[-Infinity]}'],
)
def test_invalid_json_is_rejected(calls: CallValidator, body: bytes) -> None:
    assert rejection_status(calls, "run/predict", body) == 400
    assert rejection_status(calls, "component_server", body) == 400


@pytest.mark.parametrize("body", [b"[]", b"null", b"7", b'"x"', b"{}"])
def test_json_of_wrong_shape_is_rejected(calls: CallValidator, body: bytes) -> None:
    for call in ("run/predict", "queue/join", "component_server"):
        assert rejection_status(calls, call, body) == 422


def test_nesting_depth_is_bounded(calls: CallValidator) -> None:
    deep: Any = "x"
    for _ in range(14):
        deep = [deep]
    assert rejection_status(calls, "run/predict", quick(event_data=deep)) == 0
    assert rejection_status(calls, "run/predict", quick(event_data=[[deep]])) == 422


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "http://127.0.0.1/x", "{folder}/../x", "{folder}", "\0", "", "x" * 9_999]
)
def test_paths_outside_uploads_are_rejected_at_any_depth(calls: CallValidator, tmp_path: Path, path: str) -> None:
    file = {"path": path.format(folder=tmp_path), "meta": {"_type": "gradio.FileData"}}
    for wrong in (quick(data=[file, None]), quick(data=[None, {"a": [file]}]), quick(event_data={"files": [file]})):
        assert rejection_status(calls, "run/predict", wrong) == 422
    assert rejection_status(calls, "component_server", server(data=file)) == 422
    with pytest.raises(CallRejected, match=NO_FILE):
        calls.check("/gradio_api/component_server", json.dumps(server(data=[file])).encode())


@pytest.mark.parametrize(
    "changes",
    [{"fn_name": wrong} for wrong in ("__init__", "value", 7)]
    + [{"component_id": wrong} for wrong in (6, "5", 2**70)]
    + [{"session_hash": None}, {"more": 1}],
)
def test_unknown_component_functions_are_rejected(calls: CallValidator, changes: dict[str, Any]) -> None:
    assert rejection_status(calls, "component_server", server(**changes)) == 422


@pytest.mark.parametrize(
    "call", ["call/speak", "call/v2/x", "api/predict", "run/speak", "process_recording", "cancel", "reset", ""]
)
def test_unknown_calls_are_not_found(calls: CallValidator, call: str) -> None:
    assert rejection_status(calls, call, quick()) == 404


def test_each_event_of_the_page_is_accepted_on_its_route(engine: FakeEngine, storage: Storage, tmp_path: Path) -> None:
    demo = create_app(make_context(engine, storage, tmp_path))
    calls = CallValidator(demo.config, tmp_path)
    for event in demo.config["dependencies"]:
        body = quick(fn_index=event["id"], data=[None] * len(event["inputs"]))
        statuses = (rejection_status(calls, "run/predict", body), rejection_status(calls, "queue/join", body))
        expected = {(False, False): (422, 422), (True, False): (0, 422), (True, True): (422, 0)}
        assert statuses == expected[event["backend_fn"], bool(event["backend_fn"] and event["queue"])], event[
            "api_name"
        ]
