"""The WebSocket that speaks text while it is written, with the `websockets` client and the bundled model."""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from api.access import CALLER
from api.context import ApiContext
from api.speech import live
from api.speech.reply import Reply
from api.speech.stream import EncodedSpeech, Part
from storage.api_keys import NewKey
from studio.access import Caller
from studio.engines.speech_metrics import Usage
from tests.api.conftest import LONG, TEXT, Server, bearer, decode_audio, end_turns_after, metric, same_sound
from tests.paths import CLIP
from tests.support.looping import run
from tests.support.waiting import until
from web.limits import connections

FRAMES = 4  # of each sentence with `short_turns`
REPLY = "The rain has stopped at last. We can go out now, if you like. "
NOTHING = {"characters": 0, "frames": 0, "seconds": 0, "sentences": 0}  # usage of a reply that was not spoken

pytestmark = pytest.mark.usefixtures("short_turns")


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for other modules, with fewer frames: this one speaks many sentences."""
    end_turns_after(FRAMES, monkeypatch)


def spoken(server: Server) -> float:
    """Return the seconds of a sentence."""
    return FRAMES / server.engine.info.frame_rate


class Session:
    """A client session. audio: binary messages of the current reply."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket, self.audio = socket, b""

    def send(self, kind: str, **content: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **content}))

    def next(self, *kinds: str) -> dict[str, Any]:
        """Return the next message of one of these kinds, or of any kind."""
        while True:
            message = self.socket.recv(40)
            if isinstance(message, bytes):
                assert message
                self.audio += message
                continue
            content: dict[str, Any] = json.loads(message)
            assert content["type"] != "error" or "error" in kinds or not kinds, content
            if content["type"] in kinds or not kinds:
                return content

    def configure(self, **config: Any) -> dict[str, Any]:
        self.send("session.config", **{"voice": "Clara", "seed": 7, **config})
        return self.next()

    def speak(self, text: str) -> dict[str, Any]:
        """Have a reply of one sentence spoken, which must be the next one. Return its usage."""
        self.send("input.text", text=text)
        self.send("input.done")
        assert self.next("audio.start")["sentence_text"] == text
        usage: dict[str, Any] = self.next("session.done")["usage"]
        return usage


@contextmanager
def live_session(server: Server, **headers: str) -> Iterator[Session]:
    with connect(server.url.replace("http", "ws") + "/v1/audio/speech/stream", additional_headers=headers) as socket:
        yield Session(socket)


def test_text_is_spoken_while_it_is_written(server: Server) -> None:
    with live_session(server) as session:
        assert session.configure() == {"type": "session.created", "voice": "Clara", "format": "pcm"}
        for piece in ("The ra", "in has ", "stopped at last. We"):
            session.send("input.text", text=piece)
        start = session.next()
        assert start == {
            "type": "audio.start", "sentence_index": 0, "sentence_text": "The rain has stopped at last.",
            "format": "pcm", "sample_rate": 24_000, "seconds": 0.0,
        }  # fmt: skip
        until(lambda: server.app.engine.status().speaking == 0)  # idle until more text is sent
        session.send("input.text", text=" can go out now.")
        session.send("input.done")
        first = session.next("audio.done")
        second = session.next("audio.start")
        assert second["sentence_text"] == "We can go out now."
        assert second["seconds"] == first["seconds"] == pytest.approx(spoken(server), abs=0.001)
        end, done = session.next("audio.done"), session.next()
        assert done["type"] == "session.done"
        assert done["usage"]["characters"] == len("The rain has stopped at last. We can go out now.")
        assert (done["usage"]["sentences"], done["usage"]["frames"]) == (2, 2 * FRAMES)
        assert done["usage"]["seconds"] == pytest.approx(end["seconds"], abs=0.001)
        assert len(session.audio) / 2 / 24_000 == pytest.approx(end["seconds"], abs=0.01)
    until(lambda: server.busy() == 0)


def test_replies_have_the_requested_format_and_speed(server: Server) -> None:
    with live_session(server) as session:
        for format in ("mp3", "opus", "wav"):
            session.audio = b""
            session.configure(response_format=format, speed=0.5)
            session.send("input.text", text=TEXT)
            session.send("input.done")
            seconds = session.next("audio.done")["seconds"]
            assert seconds == pytest.approx(2 * spoken(server), abs=0.05)
            assert session.next("session.done")["usage"]["seconds"] == pytest.approx(seconds, abs=0.001)
            samples, rate = decode_audio(session.audio, format)
            assert len(samples) / rate == pytest.approx(seconds, abs=0.1)


def test_session_speaks_several_replies(server: Server, client: httpx.Client) -> None:
    cancelled = metric("cancelled", client, "live")
    with live_session(server) as session:
        sounds = []
        session.configure()
        for _ in range(2):
            session.audio = b""
            session.send("input.text", text="Yes, of course.")
            session.send("input.done")
            session.next("session.done")
            sounds.append(session.audio)
        one, other = sounds
        assert same_sound(one, other)
        assert metric("cancelled", client, "live") == cancelled
        assert session.configure(voice="Adam")["voice"] == "Adam"
        session.send("session.close")
        with pytest.raises(Exception, match="1000"):
            session.socket.recv(30)


def test_sentence_with_long_numbers_is_spoken_in_parts(server: Server) -> None:
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text="Please pay $1,249.99 by 12/31/2025.")
        session.send("input.done")
        parts = [session.next("audio.start")["sentence_text"] for _ in range(2)]
        assert parts == ["Please pay $1,249.99", "by 12/31/2025."]
        assert session.next("session.done")["usage"]["sentences"] == 2


def test_text_after_a_complete_reply_is_refused_until_it_has_been_spoken(server: Server) -> None:
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text=REPLY)
        session.send("input.done")
        session.send("input.text", text="Yes.")
        assert "session.done" in session.next("error")["error"]["message"]
        session.send("input.done")
        assert "no reply to complete" in session.next("error")["error"]["message"]
        assert session.next("session.done")["usage"]["sentences"] == 2
        session.send("input.text", text="Yes.")
        session.send("input.done")
        assert session.next("session.done")["usage"]["sentences"] == 1


@pytest.mark.parametrize("format", ["pcm", "mp3"])
def test_reply_without_words_ends(server: Server, format: str) -> None:
    with live_session(server) as session:
        session.configure(response_format=format)
        for text in ("…", " ", ""):
            if text:
                session.send("input.text", text=text)
            session.send("input.done")
            assert session.next()["usage"] == {**NOTHING, "characters": len(text)}


@pytest.mark.parametrize("written", ["It rains. ", "One moment."])
def test_complete_sentence_is_spoken_without_further_text(server: Server, written: str) -> None:
    """A language model may pause after a sentence, as when it calls a tool."""
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text=written)
        assert session.next("audio.start")["sentence_text"] == written.strip()
        until(lambda: server.app.engine.status().speaking == 0)
        session.send("input.text", text="We can go.")
        session.send("input.done")
        assert session.next("audio.start")["sentence_text"] == "We can go."
        assert session.next("session.done")["usage"]["sentences"] == 2


@pytest.mark.parametrize("accepted", ["The rain has stopped. Th", ""])
def test_rejected_text_ends_its_reply(server: Server, accepted: str) -> None:
    """The rest of the reply is not spoken without it, and a client that waits only for the end goes on."""
    with live_session(server) as session:
        session.configure()
        if accepted:
            session.send("input.text", text=accepted)
        session.send("input.text", text=" привет ")
        assert "English only" in session.next("error")["error"]["message"]
        until(lambda: server.busy() == 0)
        session.send("input.text", text="The rest is ignored. ")
        session.send("input.text", text="привет")
        session.send("input.done")
        while (event := session.next())["type"] != "session.done":
            assert event.get("sentence_text", "The rain has stopped.") == "The rain has stopped."
        assert event["usage"]["characters"] == len(accepted)
        session.speak("A new reply begins.")


@pytest.mark.parametrize(("cleared", "fields"), [("input.interrupt", {"seconds": 1.0}), ("session.config", {})])
def test_new_reply_may_begin_after_a_rejected_one_without_its_end(
    server: Server, cleared: str, fields: dict[str, float]
) -> None:
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text=REPLY * 2)
        session.next("audio.done")
        session.send("input.text", text="привет")
        session.next("error")
        session.send(cleared, **fields)  # with a position, because nothing may have been heard by the clock yet
        event = session.next("interrupted", "session.created")
        assert event.get("heard", "The rain").startswith("The rain")
        assert session.speak("Yes.")["sentences"] == 1


def test_replies_are_refused_from_a_refused_configuration_to_a_valid_one(server: Server) -> None:
    """They are not spoken in another voice than the requested one."""
    with live_session(server) as session:
        session.configure()
        assert session.configure(voice="Nobody")["type"] == "error"
        for _ in range(2):
            session.send("input.text", text="The rain ")
            assert "session.config was refused" in session.next("error")["error"]["message"]
            session.send("input.text", text="has stopped. ")
            session.send("input.done")
            assert session.next() == {"type": "session.done", "usage": NOTHING}
        session.send("input.text", text="The rain ")
        session.next("error")
        assert session.configure(voice="Adam")["voice"] == "Adam"
        assert session.speak("Yes.")["sentences"] == 1


def test_reply_that_has_begun_outlasts_a_refused_configuration(server: Server) -> None:
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text="The rain has stopped. ")
        session.next("audio.start")
        session.send("session.config", voice="Adam")
        assert "The reply has begun" in session.next("error")["error"]["message"]
        session.send("input.text", text="We can go.")
        session.send("input.done")
        assert session.next("session.done")["usage"]["sentences"] == 2
        session.send("input.text", text="Yes.")
        assert "session.config was refused" in session.next("error")["error"]["message"]


def test_early_text_is_refused_up_to_its_end(server: Server) -> None:
    """It is refused because the last reply is still spoken; its rest is not spoken when that has ended."""
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text=REPLY)
        session.send("input.done")
        session.send("input.text", text="It is late, ")
        assert "session.done" in session.next("error")["error"]["message"]
        assert session.next("session.done")["usage"]["sentences"] == 2
        session.send("input.text", text="so we go. ")
        session.send("input.done")
        assert session.next()["usage"] == NOTHING


def test_ssml_may_be_divided(server: Server) -> None:
    with live_session(server) as session:
        session.configure()
        pieces = [
            "<spe",
            "ak>It rains &am",
            "p; pours. <break ti",
            'me="250ms"',
            "/>We <emph",
            "asis>wait</emphasis>.</spe",
            "ak>",
        ]
        for piece in pieces:
            session.send("input.text", text=piece)
        session.send("input.done")
        assert session.next("audio.start")["sentence_text"] == "It rains & pours."
        second = session.next("audio.start")
        assert second["sentence_text"] == "We wait."
        usage = session.next("session.done")["usage"]
        assert usage["characters"] == len("".join(pieces))
        assert usage["seconds"] == pytest.approx(2 * spoken(server) + 0.25, abs=0.002)


def test_speech_that_fails_ends_its_reply(server: Server) -> None:
    """A pause that is too long is found when the text before it has been accepted."""
    for complete in (True, False):
        with live_session(server) as session:
            session.configure()
            session.send("input.text", text="It rains. [pause:90] We wait. ")
            if complete:
                session.send("input.done")
            assert "60 seconds" in session.next("error")["error"]["message"]
            if not complete:
                session.send("input.text", text="The rest is ignored.")
                session.send("input.done")
            assert session.next()["type"] == "session.done"
            session.speak("Yes.")


def test_text_after_the_maximum_length_is_ignored(server: Server) -> None:
    with live_session(server) as session:
        session.configure(max_new_tokens=FRAMES + 2)
        session.send("input.text", text=REPLY)
        assert session.next("session.done")["usage"]["frames"] == FRAMES + 2
        session.send("input.text", text="It is late now. We can go out. ")
        session.send("input.done")
        session.speak("Yes.")


def test_configuration_changes_only_the_given_fields_and_takes_a_reference_clip(server: Server) -> None:
    url = "data:audio/flac;base64," + base64.b64encode(CLIP.read_bytes()).decode()
    with live_session(server) as session:
        session.send("session.config", speed=1.5)
        assert session.next()["voice"] == "alloy"
        session.configure(voice="Adam", response_format="wav")
        session.send("session.config", speed=2, voice=None)
        assert session.next() == {"type": "session.created", "voice": "Adam", "format": "wav"}
        session.send("session.config", ref_audio=url, ref_text="The train was late, so we walked along the river.")
        assert session.next()["voice"] is None
        session.speak("Hello.")
        samples, rate = decode_audio(session.audio, "wav")
        assert len(samples) / rate == pytest.approx(spoken(server) / 2, abs=0.05)
        assert np.abs(samples).max() > 1000
        session.send("session.config", voice="Clara")
        assert session.next()["voice"] == "Clara"


def test_session_is_not_idle_during_playback(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sends nothing while it plays a reply."""
    monkeypatch.setattr(live, "IDLE_SECONDS", 3.0)
    with live_session(server) as session:
        session.configure()
        asked = time.monotonic()
        session.send("input.text", text=REPLY)
        session.send("input.done")
        heard = session.next("session.done")["usage"]["seconds"]
        with pytest.raises(Exception, match="The session was idle"):
            session.socket.recv(30)
        assert time.monotonic() - asked > heard + 3.0


def test_session_is_not_idle_while_its_reply_waits_for_the_engine(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "IDLE_SECONDS", 1.0)
    parts = EncodedSpeech.parts

    async def late(stream: EncodedSpeech) -> AsyncIterator[Part]:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.5 * live.IDLE_SECONDS):
                await asyncio.Event().wait()
        async for part in parts(stream):
            yield part

    monkeypatch.setattr(EncodedSpeech, "parts", late)
    with live_session(server) as session:
        session.send("input.text", text="Yes.")
        session.send("input.done")
        assert session.next("session.done")["usage"]["seconds"] > 0


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"type": "session.config", "voice": "Nobody"}, "no voice called “Nobody”"),
        ({"type": "session.config", "speed": 9}, "speed: "),
        ({"type": "session.config", "model": "whisper-1"}, "is not loaded here"),
        ({"type": "session.config", "lufs": -16}, "lufs is not available in a live session."),
        ({"type": "input.text"}, "text: "),
        ({"type": "input.text", "text": "Привет"}, "speaks English only"),
        ({"type": "input.interrupt"}, "no reply to interrupt"),
        ({"type": "input.interrupt", "seconds": -1}, "seconds: "),
        ({"type": "response.create"}, "one of those of this session"),
        ([], "JSON objects"),
        ({"type": "session.config", "other": [0] * 500_001}, "JSON objects"),  # not parsed
    ],
)
def test_invalid_messages_return_errors_and_keep_the_session(server: Server, message: object, says: str) -> None:
    with live_session(server) as session:
        session.socket.send(json.dumps(message))
        assert says in session.next("error")["error"]["message"]
        session.socket.send(b"\x00")
        session.socket.send("{")
        assert [session.next()["type"] for _ in range(2)] == ["error", "error"]
        assert session.configure()["type"] == "session.created"
    until(lambda: server.busy() == 0)


def test_error_names_the_invalid_field(server: Server) -> None:
    """As the errors of `POST /v1/audio/speech` do."""
    with live_session(server) as session:
        session.send("session.config", speed=9)
        assert session.next("error")["error"]["param"] == "speed"


@pytest.mark.parametrize("text", [LONG, "And so"])
def test_lost_connection_frees_its_slot(server: Server, client: httpx.Client, text: str) -> None:
    """Also while a reply waits for more text."""
    frames, cancelled = metric("frames", client), metric("cancelled", client, "live")
    with live_session(server) as session:
        session.configure()
        session.send("input.text", text=text)
        if text == LONG:
            session.next("audio.start")
        until(lambda: server.busy() == 1)
        session.socket.socket.close()
    until(lambda: server.busy() == 0)
    assert metric("frames", client) - frames < 100 * FRAMES, "most of the sentences were not spoken"
    until(lambda: metric("cancelled", client, "live") == cancelled + 1)


def test_a_disconnect_that_sending_notices_is_counted() -> None:
    class Socket:
        async def send_bytes(self, _data: bytes) -> None:
            raise WebSocketDisconnect(1006)

    class Stream:
        usage, failed = Usage(0), False

        async def parts(self) -> AsyncIterator[Part]:
            yield Part(b"sound", None)

        def close(self) -> None:
            pass

    class Metrics:
        def count(self, _front_end: str, _usage: Usage, *, gone: bool, failed: bool) -> None:
            counted.append((gone, failed))

    async def send() -> None:
        given: Any = (Socket(), "A text.", Stream(), None, Metrics())
        reply = Reply(*given)
        await reply._task

    counted: list[tuple[bool, bool]] = []
    run(send)
    assert counted == [(True, False)]


def test_remote_session_needs_a_key(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [caplog.handler])
    for headers in ({"Origin": "https://evil.example"}, {"X-Forwarded-For": "192.0.2.1"}):
        with pytest.raises(InvalidStatus) as refused, live_session(server, **headers):
            pass
        assert refused.value.response.status_code == 401
        with server.key() as key, live_session(server, **headers, **bearer(key)) as session:
            assert session.configure()["type"] == "session.created"
    with pytest.raises(InvalidStatus), connect(server.url.replace("http", "ws") + "/gradio_api/queue/data"):
        pass
    assert not caplog.records


def test_reply_needs_a_key_that_is_still_valid(server: Server) -> None:
    with server.key("Other"), server.key() as key, live_session(server, **bearer(key)) as session:
        session.speak("Yes.")
        server.storage.keys.revoke("Test")
        session.send("input.text", text="The rain has ")
        assert session.next("error")["error"]["code"] == "invalid_api_key"
        session.send("input.text", text="stopped.")
        session.send("input.done")
        assert session.next()["usage"] == NOTHING
        server.storage.keys.create(NewKey("Test", "user:ann"))  # for the end of the block


def test_other_web_sockets_are_not_found(server: Server) -> None:
    """As for HTTP: clients that speak another protocol do not look for the fault in their key."""
    with server.key() as key:
        for headers, status in (({}, 401), (bearer(key), 404)):
            with (
                pytest.raises(InvalidStatus) as refused,
                connect(server.url.replace("http", "ws") + "/v1/realtime", additional_headers=headers),
            ):
                pass
            assert refused.value.response.status_code == status
            assert json.loads(refused.value.response.body)["error"]["type"] == "invalid_request_error"


def test_session_outlives_the_header_timeout_and_ends_when_idle(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.9)  # less than the next one
    monkeypatch.setattr(live, "IDLE_SECONDS", 1.0)
    with live_session(server) as session, pytest.raises(Exception, match="The session was idle"):
        session.socket.recv(30)


def test_idle_session_ends_when_its_client_has_left(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing it fails; the server logs no error."""
    monkeypatch.setattr(live, "IDLE_SECONDS", 0.0)
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        if not sent:
            return {"type": "websocket.connect"}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["type"])
        if message["type"] == "websocket.close":
            raise OSError("The connection is closed.")

    run(live.speak_live, WebSocket(_scope(server), receive, send))
    assert sent == ["websocket.accept", "websocket.close"]


def test_session_ends_when_an_answer_cannot_be_sent(server: Server) -> None:
    """Its client left without waiting for the answer; the server logs no error."""
    messages = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": '{"type": "session.config"}'}]
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return messages.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["type"])
        if message["type"] == "websocket.send":
            raise OSError("The connection is closed.")

    run(live.speak_live, WebSocket(_scope(server), receive, send))
    assert sent == ["websocket.accept", "websocket.send"]


def _scope(server: Server) -> dict[str, Any]:
    """Return the scope of a local caller's web socket."""
    context = ApiContext.create(server.app)
    app = SimpleNamespace(state=SimpleNamespace(context=context))
    return {"type": "websocket", "app": app, "state": {CALLER: Caller("local")}}
