"""Bounds on the state that Gradio keeps per session, and checks of the private names of Gradio that are used."""

import asyncio
import importlib.util
import inspect
import socket
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import gradio as gr
import pytest
from gradio import component_meta
from gradio.mcp import GradioMCPServer
from gradio.queueing import Queue
from gradio.state_holder import SessionState, StateHolder

from engine.errors import InvalidOption
from storage import Storage, VoiceLibrary
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import make_context
from tests.web.visitor import Visitor
from web import gradio_internals
from web.gradio_import import FUNCTION, write_nothing
from web.gradio_internals import (
    BoundedMessages,
    SlimSessionState,
    SlimStateHolder,
    drop_unread_messages,
    unread_messages,
)
from web.launch import launch
from web.page import create_app


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    """A page that is not served."""
    folder = tmp_path_factory.mktemp("page")
    with Storage.open(folder / "voices.db") as storage:
        yield create_app(make_context(FakeEngine(), storage, folder))


def test_taken_port_is_reported_without_names_of_gradio() -> None:
    with socket.socket() as taken, gr.Blocks() as page:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidOption, match=f"127.0.0.1, port {port}: another program") as refused:
            launch(page, server_port=port)
    assert "GRADIO" not in str(refused.value)


def test_gradio_writes_no_stub_files_and_brings_them() -> None:
    assert getattr(component_meta, FUNCTION) is write_nothing
    assert f"def {FUNCTION}(" in inspect.getsource(component_meta), "the function has another name: skip that one"
    stubs = {file.name for file in metadata.files("gradio") or () if file.suffix == ".pyi"}
    assert {"textbox.pyi", "html.pyi", "blocks_events.pyi"} <= stubs


def test_gradio_imports_no_package_of_mcp() -> None:
    """The package is installed here, and the API uses it when it is first asked for."""
    assert importlib.util.find_spec("mcp")
    assert not hasattr(GradioMCPServer, "Server")
    assert "from mcp.server import Server" in inspect.getsource(GradioMCPServer)


def test_private_session_state_of_gradio_is_unchanged(demo: gr.Blocks) -> None:
    """A missing name has moved in another version of Gradio: find it and bound it there."""
    queue = demo._queue
    assert isinstance(queue, Queue)
    kept = ("pending_messages_per_session", "pending_event_ids_session", "ANALYTICS_MAX_EVENTS")
    polled = ("sleep_when_free", "progress_update_sleep_when_free")
    for name in (*kept, *polled, "ANAYLTICS_CACHE_FREQUENCY"):
        assert hasattr(queue, name), name
    holder = StateHolder()
    holder.set_blocks(demo)
    assert holder.capacity == demo.state_session_capacity
    full, light = SessionState(demo), SlimSessionState(demo)
    assert vars(full).keys() == vars(light).keys()
    assert {type(value) for value in vars(full).values()} == {type(value) for value in vars(light).values()}
    assert isinstance(demo.app.state_holder, StateHolder)


def test_other_private_names_of_gradio_exist(demo: gr.Blocks) -> None:
    """Names for logins (`is_admitted`), event data, components, the folder of uploads and raw inputs."""
    for name in ("auth", "tokens", "cookie_id"):
        assert hasattr(demo.app, name), name
    assert gradio_internals.event_value(gr.EventData(None, {"id": 1})) == {"id": 1}
    assert gradio_internals.event_value({"id": 1}) == {"id": 1}
    blocks: dict[int, Any] = demo.blocks
    assert all(gradio_internals.component_id(each) == key for key, each in blocks.items())
    assert gradio_internals.upload_folder(demo) == demo.GRADIO_CACHE
    ours = inspect.signature(gradio_internals.RawInputBlocks.preprocess_data)
    assert list(ours.parameters) == list(inspect.signature(gr.Blocks.preprocess_data).parameters)
    assert isinstance(demo, gradio_internals.RawInputBlocks)


def test_no_component_is_stateful(demo: gr.Blocks) -> None:
    assert not [block for block in demo.blocks.values() if getattr(block, "stateful", False)]


def test_no_component_gets_the_status_of_events(demo: gr.Blocks) -> None:
    """The page would copy the properties of all outputs of all events whenever an event begins or ends."""
    events = [each for each in demo.get_config_file()["dependencies"] if each["backend_fn"]]
    assert len(events) > 50
    assert {len(each["show_progress_on"]) for each in events if each["outputs"]} == {0}


def test_a_choice_is_kept_before_it_is_sent(demo: gr.Blocks) -> None:
    """Otherwise no answer could change the component any more (static/connection/answers/latest_answers.js)."""
    kept, sent = {}, {}
    for event in demo.get_config_file()["dependencies"]:
        for component, kind in event["targets"]:
            if kind == "input" and event["backend_fn"]:
                sent[component] = event["id"]
            elif kind == "input" and "answers.chose" in (event["js"] or ""):
                kept[component] = event["id"]
    both = kept.keys() & sent.keys()
    assert both, "History's settings"
    assert all(kept[each] < sent[each] for each in both)


def size(state: SessionState) -> int:
    parts = [state.config_values, *state.config_values.values(), state.blocks_config.blocks, state.blocks_config.fns]
    return sum(map(sys.getsizeof, parts))


def test_slim_session_is_small_and_keeps_no_values(demo: gr.Blocks) -> None:
    state = SlimSessionState(demo)
    component = next(iter(demo.blocks))
    state[component] = demo.blocks[component]
    state._update_value_in_config(component, "x" * 1_000_000)
    state._update_config(component)
    assert state.config_values == {}
    assert size(state) * 2 < size(SessionState(demo))


def test_least_recently_used_session_is_evicted(demo: gr.Blocks) -> None:
    states = SlimStateHolder()  # type: ignore[no-untyped-call]
    states.set_blocks(demo)
    states.capacity = 3
    for name in ("a", "b", "c", "a", "d"):
        assert isinstance(states[name], SlimSessionState)
    assert list(states.session_data) == ["c", "a", "d"]


def test_message_queues_without_running_events_are_evicted_first() -> None:
    events: dict[str, set[str]] = {}
    pending = BoundedMessages(3, events)

    def arrive(session: str, *, working: bool, messages: int = 0) -> None:
        pending[session] = asyncio.Queue()
        for number in range(messages):
            pending[session].put_nowait(number)
        events[session] = {"event"} if working else set()

    arrive("heard", working=True)
    arrive("unread", working=True, messages=2)
    arrive("idle", working=False)
    arrive("new", working=True)
    assert list(pending) == ["heard", "unread", "new"]
    arrive("newer", working=True)
    assert list(pending) == ["heard", "new", "newer"]
    arrive("newest", working=True)
    assert list(pending) == ["new", "newer", "newest"]
    assert set(events) == set(pending)
    del pending["new"]
    assert set(events) == set(pending)


def test_invented_sessions_of_a_served_page_are_bounded(
    serve: Callable[..., str],
    storage: Storage,
    library: VoiceLibrary,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apps: list[Any] = []
    monkeypatch.setattr(gradio_internals, "SESSIONS", 5)
    limit_sessions = gradio_internals.limit_sessions

    def noted(app: Any) -> Any:
        apps.append(app)
        return limit_sessions(app)

    monkeypatch.setattr(gradio_internals, "limit_sessions", noted)
    anna = library.add(voice("Anna")).id
    visitor = Visitor(serve(FakeEngine(), storage))
    visitor.arrive()
    function = visitor._function("click", "rp-speak", 1)
    for number in range(12):
        data = ["Hi.", anna, "", 0.7, 0.8, 30, 0, 1, "", "fake", None, f"ticket {number}"]
        body = {"data": data, "fn_index": function, "session_hash": f"invented{number}"}
        assert visitor.http.post("gradio_api/queue/join", json=body).status_code == 200
    (app,) = apps
    queue = app.get_blocks()._queue
    assert isinstance(app.state_holder, SlimStateHolder)
    assert len(app.state_holder.session_data) <= 5
    assert len(queue.pending_messages_per_session) <= 5
    assert set(queue.pending_event_ids_session) <= set(queue.pending_messages_per_session)
    assert visitor.speak("Hello.", anna)["stop_reason"] == "end"
    data = ["Hi.", anna, "", 0.7, 0.8, 30, 0, 1, "", "fake", visitor.token, "last ticket"]
    last: dict[str, Any] = {"data": data, "fn_index": function, "session_hash": "last"}
    joined = visitor.http.post("gradio_api/queue/join", json=last).json()["event_id"]
    stream = visitor.http.get("gradio_api/queue/data", params={"session_hash": "last"})
    *_, completed, closed, end = stream.text.split("\n\n")
    # As static/connection/transport/messages.js looks for them.
    assert completed.startswith(f'data: {{"msg":"process_completed","event_id":"{joined}"')
    assert closed.startswith('data: {"msg":"close_stream"')
    assert end == ""
    assert queue.events_recorded > 12
    assert queue.cached_event_analytics_summary == {"functions": {}}  # no table was made


def test_unread_messages_are_counted_and_dropped(demo: gr.Blocks) -> None:
    assert unread_messages(demo, "nobody") is None
    drop_unread_messages(demo, "nobody")
    messages: asyncio.Queue[Any] = asyncio.Queue()
    for number in range(3):
        messages.put_nowait(number)
    demo._queue.pending_messages_per_session["somebody"] = messages
    assert unread_messages(demo, "somebody") == 3
    drop_unread_messages(demo, "somebody")
    assert unread_messages(demo, "somebody") == 0
