"""Takes over real HTTP, from clients that send much and read nothing, or read slowly."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import pytest
from gradio.context import LocalContext

from storage import Storage, VoiceLibrary
from studio.engines.model_manager import IdleUnload, ModelManager
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine, FakeSpeech, Script, voice
from tests.support.looping import run
from tests.support.waiting import PATIENCE, until
from tests.web import conftest
from tests.web.visitor import Visitor
from web.tabs.speak import streaming

Serve = Callable[..., str]
LONG = "A text that is spoken for a while. " * 40


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may leave its messages for one second."""
    made = streaming.TakeStreams.__init__
    monkeypatch.setattr(streaming.TakeStreams, "__init__", lambda self, *given: made(self, *given, unread=1.0))


@pytest.fixture(autouse=True)
def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "TELL", 0.1)
    monkeypatch.setattr(streaming, "REMIND", 0.3)


@pytest.fixture
def anna(library: VoiceLibrary, storage: Storage) -> str:
    made = library.add(voice("Anna"))
    return made.id


def join(visitor: Visitor, text: str, voice_id: str, ticket: str = "ticket", session: str = "") -> int:
    data = [text, voice_id, "", 0.7, 0.8, 30, 0, "", "fake", visitor.token, ticket]
    visitor.speaks = getattr(visitor, "speaks", None) or visitor._function("click", "rp-speak", 1)  # type: ignore[attr-defined]
    body = {"data": data, "fn_index": visitor.speaks, "session_hash": session or visitor._session}
    return visitor.http.post("gradio_api/queue/join", json=body).status_code


@contextmanager
def listening(visitor: Visitor, session: str = "") -> Iterator[Iterator[dict[str, Any]]]:
    """What the queue says to a session."""
    asked = {"session_hash": session or visitor._session}
    with visitor.http.stream("GET", "gradio_api/queue/data", params=asked) as events:
        yield (json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: "))


def messages(said: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages of takes among them."""
    for each in said:
        if each["msg"] in ("process_generating", "process_completed") and each["output"].get("data"):
            message = each["output"]["data"][0]
            if isinstance(message, dict):
                yield message
        if each["msg"] == "process_completed":
            return


class Asking(FakeEngine):
    """Keeps the sessions of the visitors who speak, as packages that are told nothing find them."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[str | None] = []

    def speak(self, *given: Any, **more: Any) -> FakeSpeech:
        request = LocalContext.request.get(None)
        self.sessions.append(request and request.session_hash)
        return super().speak(*given, **more)


def test_who_speaks_is_known_in_the_threads_of_takes(serve: Serve, storage: Storage, anna: str) -> None:
    engine = Asking()
    visitor = Visitor(serve(engine, storage))
    assert visitor.speak("Hello.", anna)["stop_reason"] == "end"
    assert engine.sessions == [visitor._session]


@pytest.mark.usefixtures("impatient")
def test_a_take_that_no_page_fetches_is_ended_and_kept(
    serve: Serve, storage: Storage, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[Any] = []
    unread = streaming.unread_messages
    monkeypatch.setattr(streaming, "unread_messages", lambda demo, session: pages.append(demo) or unread(demo, session))
    engine = FakeEngine(Script(pace=0.02))
    visitor = Visitor(serve(engine, storage))
    assert join(visitor, LONG, anna) == 200
    until(lambda: engine.speeches and engine.speeches[0].closed)
    until(lambda: storage.history.page().total)
    (left,) = storage.history.page().records
    assert left.stop_reason == "cancelled"
    heard = int(left.duration * 22_050 / 8_192)
    assert heard <= streaming.AHEAD, "no more was made than a page may be behind"
    until(lambda: (unread(pages[0], visitor._session) or 0) <= 1)  # its sound is gone; that it is over may stay
    assert Visitor(str(visitor.http.base_url)).speak("Hello.", anna)["stop_reason"] == "end", "its place is free"


@pytest.mark.usefixtures("impatient")
def test_a_connection_that_is_never_read_is_no_reader(serve: Serve, storage: Storage, anna: str) -> None:
    """What fits into the buffers between is made, and nothing more."""
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
    assert left.stop_reason == "cancelled"
    assert left.duration < 0.5 * len(text) * engine.script.seconds_per_character


@pytest.mark.usefixtures("impatient")
def test_a_slow_reader_hears_everything(serve: Serve, storage: Storage, anna: str) -> None:
    engine = FakeEngine()
    visitor = Visitor(serve(engine, storage))
    join(visitor, LONG, anna)
    chunks = []
    with listening(visitor) as said:
        for message in messages(said):
            chunks.append(message)
            time.sleep(0.03)
    assert chunks[-1]["kind"] == "end"
    assert chunks[-1]["stop_reason"] == "end"


def test_a_page_that_is_gone_leaves_the_line(serve: Serve, storage: Storage, anna: str) -> None:
    engine = FakeEngine(Script(pace=5, line=True))
    url = serve(engine, storage)
    first, second = Visitor(url), Visitor(url)
    join(first, LONG, anna)
    until(lambda: engine.speeches)
    join(second, "Me too.", anna, "second")
    with listening(second) as said:
        assert next(messages(said))["kind"] == "start"
        assert "Waiting: you are next." in json.dumps(next(said)), "what changes of a message is sent"
    until(lambda: engine.speeches[1].closed)
    assert not engine.speeches[0].over
    engine.speeches[0].cancel()


def test_a_page_is_told_that_the_model_is_loaded_again(
    serve: Serve, storage: Storage, anna: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, clock = threading.Event(), Clock()

    def load(_model: str, report: Callable[[str, float], None]) -> FakeEngine:
        report("Reading", 0.5)
        assert go_on.wait(PATIENCE)
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
    with listening(visitor) as said:
        assert next(messages(said))["kind"] == "start"
        assert "The model is being loaded: 50 %" in json.dumps(next(said))
        go_on.set()
        assert list(messages(said))[-1]["stop_reason"] == "end"
    assert not managers[0].asleep


def test_many_posts_of_one_visitor_leave_room_for_another(serve: Serve, storage: Storage, anna: str) -> None:
    """Browsers' owners: 24 sessions of one visitor, who reads none of them."""
    engine = FakeEngine(Script(pace=0.01, line=True))
    engine.slots = 5
    url = serve(engine, storage, "browser")
    greedy, other = Visitor(url), Visitor(url)
    for visitor in (greedy, other):
        visitor.arrive()
    theirs = storage.voices.add(voice("Everyone's"), owner=f"browser:{greedy.token.rpartition('.')[0]}").id
    mine = storage.voices.add(voice("Mine"), owner=f"browser:{other.token.rpartition('.')[0]}").id
    statuses = [join(greedy, LONG, theirs, f"greedy{number}", f"greedy{number}") for number in range(24)]
    assert statuses == [200] * 24, "none is kept from its sentence"
    assert other.speak("Only this.", mine)["stop_reason"] == "end"
    assert [text for text, _, _ in engine.asked].count(LONG) == 4
    with listening(greedy, "greedy23") as said:
        refused = list(messages(said))[-1]
    assert "4 of your takes" in refused["status"]


def test_quick_events_do_not_wait_for_takes(serve: Serve, storage: Storage, anna: str) -> None:
    engine = FakeEngine(Script(pace=0.1, line=True))
    url = serve(engine, storage)
    visitor = Visitor(url)
    for number in range(60):
        join(visitor, "Hello. " * 9, anna, f"{number}", f"session{number}")
    assert visitor.arrive()["voices"], "there are fewer threads for what is quick than takes that wait"
    for speech in list(engine.speeches):
        speech.cancel()


def test_long_work_runs_in_the_context_of_its_event() -> None:
    visitor = ContextVar("visitor", default="nobody")

    def work() -> Iterator[dict[str, Any]]:
        yield {"visitor": visitor.get(), "thread": threading.current_thread().name}
        yield {"visitor": visitor.get()}

    async def told() -> list[dict[str, Any]]:
        visitor.set("ann")
        streams = streaming.TakeStreams(cast(Any, None), cast(Any, None))
        return [value async for value in streams.steps(work)()]

    first, second = run(told)
    assert first.pop("thread").startswith("reprise-speak")
    assert (first, second) == ({"visitor": "ann"}, {"visitor": "ann"})
