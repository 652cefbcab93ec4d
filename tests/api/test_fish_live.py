"""Fish Audio's WebSocket, which speaks a text while it is written, with the events of its clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgpack
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from api import fish_live
from api.fish import read_msgpack
from storage.api_keys import Allowance
from tests.api.conftest import LONG, Server, bearer, decode_audio, same_sound
from tests.paths import CLIP
from tests.support.waiting import until

FISH_RATE = 44_100  # Hz
SHORT = pytest.mark.usefixtures("short_turns")
REQUEST = {"text": "", "reference_id": "Clara", "format": "pcm", "seed": 7, "prosody": None, "latency": "balanced"}


class Session:
    """A client session."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, event: str, **content: Any) -> None:
        self.socket.send(msgpack.packb({"event": event, **content}))

    def start(self, **request: Any) -> None:
        self.send("start", request={**REQUEST, **request})

    def next(self) -> dict[str, Any]:
        content: dict[str, Any] = msgpack.unpackb(self.socket.recv(40))
        return content

    def rest(self) -> tuple[bytes, dict[str, Any]]:
        """Return all further audio, and the last event, after which the server closes the connection."""
        audio = b""
        while (event := self.next())["event"] == "audio":
            audio += event["audio"]
        with pytest.raises(ConnectionClosed):
            self.socket.recv(40)
        return audio, event


@contextmanager
def live_session(server: Server, **headers: str) -> Iterator[Session]:
    with connect(server.url.replace("http", "ws") + "/v1/tts/live", additional_headers=headers) as socket:
        yield Session(socket)


@pytest.mark.parametrize("content", [[[]] * 1_001, [[[]] * 900] * 2, [0] * 1_001, [{}] * 1_001])
def test_messagepack_with_many_parts_is_refused_before_it_is_parsed(server: Server, content: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"more than 1,000|exceeds max_array_len"):
        read_msgpack(msgpack.packb(content))
    with live_session(server) as session:
        session.start(text=content)
        audio, last = session.rest()
        assert (audio, last["message"]) == (b"", "The message is not MessagePack.")


@SHORT
def test_text_is_spoken_while_it_is_written(server: Server) -> None:
    with live_session(server, model="s1") as session:
        session.start()
        for piece in ("The ra", "in has ", "stopped. We"):
            session.send("text", text=piece)
        first = session.next()
        assert first["event"] == "audio"
        session.send("text", text=" can go out now.")
        session.send("stop")
        audio, finish = session.rest()
        assert finish == {"event": "finish", "reason": "stop"}
        seconds = len(first["audio"] + audio) / 2 / FISH_RATE
        assert 2 * server.sentence <= seconds < 3 * server.sentence  # with a pause between the sentences
    until(lambda: server.busy() == 0)


@SHORT
def test_flush_speaks_an_incomplete_sentence(server: Server) -> None:
    with live_session(server) as session:
        session.start()
        session.send("text", text="We can go")
        session.send("flush")
        session.send("flush")
        assert session.next()["event"] == "audio"
        session.send("text", text="out now")
        session.send("stop")
        assert session.rest()[1]["reason"] == "stop"


@SHORT
@pytest.mark.parametrize("format", ["mp3", "opus", "wav"])
def test_audio_has_the_requested_format_and_voice(server: Server, format: str) -> None:
    clip = {"audio": CLIP.read_bytes(), "text": "The train was late, so we walked along the river."}
    with live_session(server) as session:
        session.start(format=format, references=[clip], reference_id=None, text="Come in. ")
        session.send("stop")
        samples, rate = decode_audio(session.rest()[0], format)
        assert len(samples) / rate > 0.3


@SHORT
def test_text_of_the_start_is_spoken_first(server: Server) -> None:
    sounds = []
    for first, piece in (("Come in.", ""), ("", "Come in.")):
        with live_session(server) as session:
            session.start(text=first)
            session.send("text", text=piece)
            session.send("stop")
            sounds.append(session.rest()[0])
    assert same_sound(sounds[0], sounds[1])


def test_session_without_text_finishes(server: Server) -> None:
    with live_session(server) as session:
        session.start()
        session.send("stop")
        assert session.rest()[1] == {"event": "finish", "reason": "stop"}
    until(lambda: server.busy() == 0)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([{"event": "text", "text": "Hi."}], "first event"),
        ([{"event": "start", "request": {**REQUEST, "reference_id": "Nobody"}}], "no voice called “Nobody”"),
        ([{"event": "start", "request": {**REQUEST, "format": "flac"}}], "format: "),
        ([{"event": "start", "request": {**REQUEST, "text": "Привет"}}], "speaks English only"),
        ([{"event": "start", "request": REQUEST}] * 2, "begun already"),
        ([{"event": "start", "request": REQUEST}, {"event": "text", "text": 5}], "text: "),
        ([{"event": "start", "request": REQUEST}, {"event": "text", "text": LONG * 2}], "text: "),
        ([{"event": "sing"}], "does not match any"),
        ([[]], "Input should be an object"),
        (["{}"], "binary messages"),
        ([b"\xc1"], "not MessagePack"),
    ],
)
def test_invalid_events_end_the_session_with_an_error(server: Server, events: list[Any], says: str) -> None:
    with live_session(server) as session:
        for event in events:
            session.socket.send(event if isinstance(event, str | bytes) else msgpack.packb(event))
        finish = session.rest()[1]
        assert (finish["event"], finish["reason"]) == ("finish", "error")
        assert says in finish["message"]
    until(lambda: server.busy() == 0)


@pytest.mark.parametrize("started", [False, True])
def test_idle_session_ends(server: Server, monkeypatch: pytest.MonkeyPatch, started: bool) -> None:
    monkeypatch.setattr(fish_live, "IDLE_SECONDS", 0.3)
    with live_session(server) as session:
        if started:
            session.start()
        assert session.rest()[1]["message"] == "The session was idle."
    until(lambda: server.busy() == 0)


def test_speech_ends_when_the_client_disconnects(server: Server) -> None:
    with live_session(server) as session:
        session.start(text=LONG)
        session.send("stop")
        assert session.next()["event"] == "audio"
    until(lambda: server.busy() == 0)


def test_keys_and_quotas_apply(server: Server) -> None:
    with server.key(owner="local", quota=Allowance(20, 3_600)) as key:
        with pytest.raises(InvalidStatus, match="401"), live_session(server):
            pass
        with live_session(server, **bearer(key)) as session:
            session.start(text="Come in.")
            session.send("text", text=" The rain has stopped.")
            assert "20 characters in 1 hour" in session.rest()[1]["message"]
