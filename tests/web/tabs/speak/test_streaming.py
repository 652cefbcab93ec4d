"""Takes over HTTP, from clients that send much and read nothing or slowly."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gradio.context import LocalContext

from storage import Storage, VoiceLibrary
from studio.engines.idle_unloader import IdleUnload
from studio.engines.model_manager import ModelManager
from studio.takes.running import RunningTakes
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine, FakeSpeech, Script, voice
from tests.support.looping import run
from tests.support.waiting import TIMEOUT, until
from tests.web import conftest
from tests.web.visitor import Visitor
from web import launch
from web.gradio_internals import unread_messages
from web.limits import budgets
from web.tabs.speak import streaming

Serve = Callable[..., str]
LONG = "A text that is spoken for a while. " * 40


def limit_unread(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a page leave its messages unread for so long."""
    made = streaming.TakeStreams.__init__
    monkeypatch.setattr(streaming.TakeStreams, "__init__", lambda self, *given: made(self, *given, unread=seconds))


@pytest.fixture
def short_unread_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_unread(monkeypatch, 1.0)


@pytest.fixture(autouse=True)
def frequent_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "TELL", 0.1)
    monkeypatch.setattr(streaming, "REMIND", 0.3)


@pytest.fixture
def anna(library: VoiceLibrary, storage: Storage) -> str:
    made = library.add(voice("Anna"))
    return made.id


def join(visitor: Visitor, text: str, voice_id: str, ticket: str = "ticket", session: str = "") -> int:
    data = [text, voice_id, "", 0.7, 0.8, 30, 0, 1, "", "fake", visitor.token, ticket]
    visitor.speaks = speaks = getattr(visitor, "speaks", None) or visitor._function("click", "rp-speak", 1)  # type: ignore[attr-defined]
    body = {"data": data, "fn_index": speaks, "session_hash": session or visitor._session}
    return visitor.http.post("gradio_api/queue/join", json=body).status_code


@contextmanager
def queue_events(visitor: Visitor, session: str = "") -> Iterator[Iterator[dict[str, Any]]]:
    """Yield the queue's events for a session."""
    asked = {"session_hash": session or visitor._session}
    with visitor.http.stream("GET", "gradio_api/queue/data", params=asked) as events:
        yield (json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: "))


def messages(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the take messages among the events."""
    for each in events:
        if each["msg"] in ("process_generating", "process_completed") and each["output"].get("data"):
            message = each["output"]["data"][0]
            if isinstance(message, dict):
                yield message
        if each["msg"] == "process_completed":
            return


class SessionRecordingEngine(FakeEngine):
    """Records the session of each take from Gradio's context, where packages without the request look for it."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.sessions: list[str | None] = []

    def speak(self, *given: Any, **more: Any) -> FakeSpeech:
        request: Any = LocalContext.request.get(None)
        self.sessions.append(request and request.session_hash)
        return super().speak(*given, **more)


@pytest.mark.usefixtures("short_unread_limit")
def test_unread_take_is_ended_and_stored(
    serve: Serve, storage: Storage, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next visitor can speak; the threads of both takes know their sessions."""
    pages: list[Any] = []
    monkeypatch.setattr(
        streaming, "unread_messages", lambda demo, session: pages.append(demo) or unread_messages(demo, session)
    )
    engine = SessionRecordingEngine(Script(pace=0.02))
    visitor = Visitor(serve(engine, storage))
    assert join(visitor, LONG, anna) == 200
    until(lambda: engine.speeches and engine.speeches[0].closed)
    until(lambda: storage.history.page().total)
    (left,) = storage.history.page().records
    assert left.stop_reason == "disconnected"
    heard = int(left.duration * 22_050 / 8_192)
    assert heard <= streaming.AHEAD, "no more chunks are made than a page may leave unread"
    # Its sound is dropped; the final message may stay.
    until(lambda: (unread_messages(pages[0], visitor._session) or 0) <= 1)
    other = Visitor(str(visitor.http.base_url))
    assert other.speak("Hello.", anna)["stop_reason"] == "end", "its slot is free"
    assert engine.sessions == [visitor._session, other._session]


@pytest.mark.usefixtures("short_unread_limit")
def test_connection_that_is_never_read_ends_the_take(serve: Serve, storage: Storage, anna: str) -> None:
    """Only as much is spoken as fits into the buffers in between."""
    engine = FakeEngine()
    visitor = Visitor(serve(engine, storage))
    text = LONG * 10
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect((visitor.http.base_url.host, visitor.http.base_url.port))
        join(visitor, text, anna)
        path = f"/gradio_api/queue/data?session_hash={visitor._session}"
        deaf.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        until(lambda: engine.speeches and engine.speeches[0].closed)
    until(lambda: storage.history.page().total)
    (left,) = storage.history.page().records
    assert left.stop_reason == "disconnected"
    assert left.duration < 0.5 * len(text) * engine.script.seconds_per_character


def test_slow_reader_receives_everything(
    serve: Serve, storage: Storage, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_unread(monkeypatch, 4.0)  # less than the reading takes in all
    engine = FakeEngine()
    visitor = Visitor(serve(engine, storage))
    join(visitor, LONG, anna)
    chunks = []
    with queue_events(visitor) as events:
        for message in messages(events):
            chunks.append(message)
            time.sleep(0.03)
    assert chunks[-1]["kind"] == "end"
    assert chunks[-1]["stop_reason"] == "end"


def test_closed_page_leaves_the_queue(serve: Serve, storage: Storage, anna: str) -> None:
    engine = FakeEngine(Script(pace=5, line=True))
    url = serve(engine, storage)
    first, second = Visitor(url), Visitor(url)
    join(first, LONG, anna)
    until(lambda: engine.speeches)
    join(second, "Me too.", anna, "second")
    with queue_events(second) as events:
        assert next(messages(events))["kind"] == "start"
        assert "Waiting: you are next." in json.dumps(next(events)), "only the changes of a message are sent"
    until(lambda: engine.speeches[1].closed)
    assert not engine.speeches[0].over
    engine.speeches[0].cancel()


def test_page_shows_that_the_model_is_loaded_again(
    serve: Serve, storage: Storage, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, clock = threading.Event(), Clock()

    def load(_model: str, report: Callable[[str, float], None]) -> FakeEngine:
        report("Reading", 0.5)
        assert go_on.wait(TIMEOUT)
        return FakeEngine()

    idle = IdleUnload(600, "fake", load, lambda: None)  # type: ignore[arg-type]
    managers: list[ModelManager] = []
    monkeypatch.setattr(
        conftest,
        "ModelManager",
        lambda made: managers.append(ModelManager(made, idle=idle, clock=clock)) or managers[0],
    )
    visitor = Visitor(serve(FakeEngine(), storage))
    clock.now = 600
    assert managers[0].unload_idle()
    join(visitor, "Hello there.", anna)
    with queue_events(visitor) as events:
        assert next(messages(events))["kind"] == "start"
        assert "The model is being loaded: 50 %" in json.dumps(next(events))
        go_on.set()
        assert list(messages(events))[-1]["stop_reason"] == "end"
    assert not managers[0].asleep


def test_many_requests_of_one_visitor_leave_room_for_another(serve: Serve, storage: Storage, anna: str) -> None:
    """Owners are browsers: one visitor has 24 sessions and reads none of them."""
    engine = FakeEngine(Script(pace=0.01, line=True))
    engine.slots = 5
    url = serve(engine, storage, "browser")
    greedy, other = Visitor(url), Visitor(url)
    for visitor in (greedy, other):
        visitor.arrive()
    theirs = storage.voices.add(voice("Everyone's"), owner=f"browser:{greedy.token.rpartition('.')[0]}").id
    mine = storage.voices.add(voice("Mine"), owner=f"browser:{other.token.rpartition('.')[0]}").id
    statuses = [join(greedy, LONG, theirs, f"greedy{number}", f"greedy{number}") for number in range(24)]
    assert statuses == [200] * 24, "every request is accepted"
    assert other.speak("Only this.", mine)["stop_reason"] == "end"
    until(lambda: [text for text, _, _ in engine.asked].count(LONG) >= 4)
    assert [text for text, _, _ in engine.asked].count(LONG) == 4
    with queue_events(greedy, "greedy23") as events:
        refused = list(messages(events))[-1]
    assert "4 of your takes" in refused["status"]


def test_quick_events_do_not_wait_for_takes(
    serve: Serve, storage: Storage, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "TAKES", 1)
    monkeypatch.setattr(launch, "EVENT_THREADS", 2)
    engine = FakeEngine(Script(line=True))
    engine.speak("Hello.", storage.voices.load(anna))  # is not read, so that all others wait
    visitor = Visitor(serve(engine, storage))
    for number in range(3):
        join(visitor, "Hello.", anna, f"{number}", f"session{number}")
    until(lambda: len(engine.speeches) == 4)
    assert visitor.arrive()["voices"], "as many takes wait as there are threads for events"
    for speech in engine.speeches:
        speech.cancel()


def test_long_work_runs_in_the_context_of_its_event() -> None:
    visitor = ContextVar("visitor", default="nobody")

    def work() -> Iterator[dict[str, Any]]:
        yield {"visitor": visitor.get(), "thread": threading.current_thread().name}
        yield {"visitor": visitor.get()}

    async def collect() -> list[dict[str, Any]]:
        visitor.set("ann")
        streams = streaming.TakeStreams(cast(Any, None), cast(Any, None))
        return [value async for value in streams.steps(work)()]

    first, second = run(collect)
    assert first.pop("thread").startswith("reprise-speak")
    assert (first, second) == ({"visitor": "ann"}, {"visitor": "ann"})


def test_further_takes_that_are_cancelled_before_they_are_registered_are_not_spoken() -> None:
    begun, go_on, spoken = threading.Event(), threading.Event(), []

    def take() -> Iterator[dict[str, Any]]:
        begun.set()
        assert go_on.wait(TIMEOUT)
        yield {"kind": "start"}
        spoken.append(1)
        yield {"kind": "end", "take": None, "problem": False}

    async def cancel() -> None:
        context = cast(Any, SimpleNamespace(running=RunningTakes()))
        streams = streaming.TakeStreams(context, cast(Any, None))
        ends = asyncio.ensure_future(anext(streams.gather(lambda: [("t", take())])()))
        await asyncio.to_thread(begun.wait, TIMEOUT)
        ends.cancel()
        await asyncio.wait([ends])
        go_on.set()
        streams._threads.shutdown()

    run(cancel)
    assert spoken == []
