"""Home Assistant's protocol, with the client of the `wyoming` package and the bundled model."""

import asyncio
import gc
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_write_event, read_event, write_event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeTextFormat,
    SynthesizeVoice,
)

from api.assistants import wyoming
from api.assistants.wyoming import WyomingHandler, check_address, create_server, serve
from api.context import ApiContext
from api.speech.delivery import open_stream
from api.speech.stream import EncodedSpeech
from app import main
from engine.errors import InvalidOption
from studio.access import Caller
from studio.speech_service import VoiceChoice
from tests.api.conftest import LONG, TEXT, Server
from tests.support.looping import run
from tests.support.ports import free_port
from tests.support.waiting import TIMEOUT, until

CLARA = SynthesizeVoice(name="Clara")
SHORT = pytest.mark.usefixtures("short_turns")


class Client(AsyncTcpClient):
    async def send(self, *messages: Eventable) -> None:
        for message in messages:
            await self.write_event(message.event())

    async def next(self) -> Event:
        event = await self.read_event()
        assert event is not None, "the connection has ended"
        return event

    async def audio(self) -> tuple[AudioStart, bytes]:
        """Receive a speech, from its start to its stop event."""
        start, sound = AudioStart.from_event(await self.next()), b""
        while not AudioStop.is_type((event := await self.next()).type):
            chunk = AudioChunk.from_event(event)
            assert (chunk.rate, chunk.width, chunk.channels) == (start.rate, start.width, start.channels)
            sound += chunk.audio
        return start, sound


def with_client(server: Server, visit: Callable[[Client], Awaitable[None]]) -> None:
    """Run `visit` with a client of a Wyoming server that uses the services of the tests."""

    async def meet() -> None:
        async with wyoming_port(server) as port, Client("127.0.0.1", port, read_timeout=60) as client:
            await visit(client)

    run(meet)


@asynccontextmanager
async def wyoming_port(server: Server) -> AsyncIterator[int]:
    port = free_port()
    serving = asyncio.create_task(serve(ApiContext.create(server.app), create_server(f"tcp://127.0.0.1:{port}")))
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            break
        await asyncio.sleep(0)
    yield port
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


def seconds(start: AudioStart, sound: bytes) -> float:
    return len(sound) / (start.rate * start.width * start.channels)


@SHORT
def test_client_lists_voices_and_speaks(server: Server) -> None:
    async def visit(client: Client) -> None:
        await client.send(Ping("here?"), Describe())
        assert Pong.from_event(await client.next()).text == "here?"
        (program,) = Info.from_event(await client.next()).tts
        assert program.supports_synthesize_streaming
        assert [voice.name for voice in program.voices] == ["Adam", "Ben", "Clara", "Daniel", "Emma", "Flora"]
        assert all(voice.installed and voice.languages == ["en"] and voice.description for voice in program.voices)
        for voice in (CLARA, SynthesizeVoice(language="en-GB"), SynthesizeVoice(language="fi"), None):
            await client.send(Synthesize(TEXT, voice))
            start, sound = await client.audio()
            assert (start.rate, start.width, start.channels) == (server.engine.info.sample_rate, 2, 1)
            assert 0.3 < seconds(start, sound) < 5

    with_client(server, visit)


@SHORT
@pytest.mark.parametrize(
    ("wanted", "spoken"),
    [
        (SynthesizeVoice(name="Emma", language="fi"), "Emma"),
        (SynthesizeVoice(language="fi"), "Clara"),
        (SynthesizeVoice(language="en_GB"), "Adam"),
        (SynthesizeVoice(language="sv"), "Ben"),
        (None, "Ben"),
    ],
)
def test_voice_is_the_named_one_or_else_of_the_language(
    server: Server, monkeypatch: pytest.MonkeyPatch, wanted: SynthesizeVoice | None, spoken: str
) -> None:
    languages = {"Ben": "fil-PH", "Clara": "FI", "Adam": "en-US"}
    voices = [SimpleNamespace(name=name, language=language) for name, language in languages.items()]
    used: list[str | None] = []

    async def opened(context: ApiContext, caller: Caller, text: str, voice: VoiceChoice, *more: Any) -> EncodedSpeech:
        used.append(voice.name)
        return await open_stream(context, caller, text, voice, *more)

    async def visit(client: Client) -> None:
        await client.send(Synthesize(TEXT, wanted))
        assert (await client.audio())[1]

    monkeypatch.setattr(WyomingHandler, "_voices", lambda _handler: voices)
    monkeypatch.setattr(wyoming, "open_stream", opened)
    with_client(server, visit)
    assert used == [spoken]


@SHORT
def test_ssml_is_spoken(server: Server) -> None:
    async def visit(client: Client) -> None:
        await client.send(Synthesize('<speak>Hi.<break time="1s"/></speak>', CLARA, SynthesizeTextFormat.SSML))
        start, sound = await client.audio()
        assert seconds(start, sound) == pytest.approx(1 + server.sentence, abs=0.01)
        await client.send(SynthesizeStart(CLARA, text_format="ssml"), SynthesizeChunk("<speak>Hi.</spe"))
        await client.send(SynthesizeChunk("ak>"), SynthesizeStop())
        assert seconds(*await client.audio()) == pytest.approx(server.sentence, abs=0.01)

    with_client(server, visit)


def test_text_without_words_ends(server: Server) -> None:
    async def visit(client: Client) -> None:
        await client.send(SynthesizeStart(CLARA), SynthesizeChunk("…"), SynthesizeStop())
        assert (await client.audio())[1] == b""
        assert SynthesizeStopped.is_type((await client.next()).type)

    with_client(server, visit)


@SHORT
def test_text_is_spoken_while_it_is_written(server: Server) -> None:
    async def visit(client: Client) -> None:
        for _ in range(2):
            await client.send(SynthesizeStart(CLARA), SynthesizeChunk("The rain has stopped at last. We"))
            start = AudioStart.from_event(await client.next())  # before the rest is sent
            heard = AudioChunk.from_event(await client.next()).audio
            await client.send(SynthesizeChunk(" can go out now."))
            # Servers without streaming use only this event.
            await client.send(Synthesize("The rain has stopped at last. We can go out now."))
            await client.send(SynthesizeStop())
            while not AudioStop.is_type((event := await client.next()).type):
                heard += AudioChunk.from_event(event).audio
            assert 2 * server.sentence <= seconds(start, heard) < 3 * server.sentence  # with a pause in between
            assert SynthesizeStopped.is_type((await client.next()).type)
        await client.send(SynthesizeStart(), SynthesizeStop())
        assert SynthesizeStopped.is_type((await client.next()).type), "an empty text has no audio"

    with_client(server, visit)


@SHORT
def test_a_second_start_ends_the_text_before(server: Server) -> None:
    async def visit(client: Client) -> None:
        await client.send(SynthesizeStart(CLARA), SynthesizeChunk("The rain has stopped at last. We"))
        assert AudioStart.is_type((await client.next()).type)
        await client.send(SynthesizeStart(SynthesizeVoice(name="Adam")), SynthesizeChunk(TEXT), SynthesizeStop())
        while not AudioStop.is_type((await client.next()).type):
            pass
        assert SynthesizeStopped.is_type((await client.next()).type)
        start, sound = await client.audio()
        assert 0.3 < seconds(start, sound) < 5
        assert SynthesizeStopped.is_type((await client.next()).type)

    with_client(server, visit)


def test_disconnected_client_frees_its_slot(server: Server) -> None:
    async def visit(client: Client) -> None:
        await client.send(Synthesize(LONG, CLARA))
        assert AudioStart.is_type((await client.next()).type)
        assert server.busy()
        await client.disconnect()
        await asyncio.to_thread(until, lambda: not server.busy())

    with_client(server, visit)


def test_client_that_leaves_while_its_speech_is_begun_frees_its_slot(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: list[WyomingHandler] = []
    handle, begun = WyomingHandler.handle_event, asyncio.Event()

    async def observed(handler: WyomingHandler, event: Event) -> bool:
        handlers.append(handler)
        return await handle(handler, event)

    async def begin(*given: Any, **named: Any) -> EncodedSpeech:
        stream = await open_stream(*given, **named)
        while not handlers[0].reader._source.at_eof():  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        begun.set()
        return stream

    monkeypatch.setattr(WyomingHandler, "handle_event", observed)
    monkeypatch.setattr(wyoming, "open_stream", begin)

    async def visit(client: Client) -> None:
        await client.send(Synthesize(LONG, CLARA))
        await client.disconnect()
        await begun.wait()
        await asyncio.to_thread(until, lambda: not server.busy())

    with_client(server, visit)


def socket_of(handler: WyomingHandler) -> socket.socket:
    return handler.writer.get_extra_info("socket")


@SHORT
@pytest.mark.parametrize("half_closed", [False, True])
def test_client_that_reads_nothing_is_dropped(
    server: Server, monkeypatch: pytest.MonkeyPatch, half_closed: bool
) -> None:
    """Sending would wait for it without end. One that has vanished without a word is noticed by the system.

    Both sides have small buffers, so that few seconds of audio fill them.
    """
    handlers: list[WyomingHandler] = []
    handle = WyomingHandler.handle_event

    async def observed(handler: WyomingHandler, event: Event) -> bool:
        handlers.append(handler)
        socket_of(handler).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return await handle(handler, event)

    monkeypatch.setattr(WyomingHandler, "handle_event", observed)
    monkeypatch.setattr(wyoming, "UNREAD_SECONDS", 0.2)

    async def leave_unread() -> None:
        async with wyoming_port(server) as port:
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=connection, limit=1)  # bytes that are read in advance
            await async_write_event(Synthesize("Hi. [pause:30] Bye.", CLARA).event(), writer)
            while not handlers:
                await asyncio.sleep(0.01)
            transport, serving = handlers[0].writer.transport, socket_of(handlers[0])
            assert serving.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            async with asyncio.timeout(TIMEOUT):
                if half_closed:
                    while transport.get_write_buffer_size() <= transport.get_write_buffer_limits()[1]:
                        await asyncio.sleep(0.01)
                    writer.write_eof()
                while serving.fileno() >= 0:
                    await asyncio.sleep(0.01)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()

    run(leave_unread)
    until(lambda: server.busy() == 0)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Synthesize(TEXT, SynthesizeVoice(name="Nobody")), "no voice called “Nobody”"),
        (Synthesize("", CLARA), "There are no words to say"),
        (Synthesize("a" * 10_001, CLARA), "at most 10,000 go in one request"),
    ],
)
def test_error_is_sent_and_ends_the_connection(server: Server, message: Eventable, says: str) -> None:
    async def visit(client: Client) -> None:
        await client.send(message)
        event = await client.next()
        assert Error.is_type(event.type), event
        assert says in Error.from_event(event).text
        assert await client.read_event() is None
        await asyncio.to_thread(until, lambda: not server.busy())

    with_client(server, visit)


def test_malformed_events_end_the_connection(server: Server) -> None:
    failures: list[object] = []
    lines = (
        b"hello\n", b"{}\n", b"[]\n", b"[" * 50_000 + b"\n", b'{"type": "synthesize"}\n', b'{"type": [1]}\n',
        b'{"type": "x", "data_length": 9}\n{', b'{"type": "x", "data_length": "9"}\n',
        b'{"type": "x", "data": [], "data_length": 2}\n{}', b'{"type": "x", "payload_length": 1e9}\n',
        b'{"type": "x", "payload_length": 1000000000}\nabc',
    )  # fmt: skip

    async def meet() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with wyoming_port(server) as port:
            for line in lines:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(line)
                writer.write_eof()
                async with asyncio.timeout(60):
                    await reader.read()
                writer.close()
            gc.collect()  # of tasks that failed

    run(meet)
    assert not failures


def test_an_event_is_never_read_beyond_its_limit(server: Server) -> None:
    """The client sends no more and keeps the connection open: only the announced length can end it."""

    async def meet() -> None:
        async with wyoming_port(server) as port:
            for size in ("data_length", "payload_length"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b'{"type": "x", "%s": 1000000000}\n' % size.encode())
                async with asyncio.timeout(60):
                    assert await reader.read() == b""
                writer.close()

    run(meet)


def test_command_serves_until_its_input_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with pipes in place of standard input and output."""
    command = ["--graphs", "off", "wyoming", "--uri", "stdio://", "--database", str(tmp_path / "voices.db")]
    (input_end, asking), (answers, output_end) = os.pipe(), os.pipe()
    with os.fdopen(asking, "wb") as sent:
        write_event(Describe().event(), sent)
    with os.fdopen(input_end) as stdin, os.fdopen(output_end, "w") as stdout, ThreadPoolExecutor(1) as thread:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        thread.submit(main, command, standalone_mode=False).result()
    with os.fdopen(answers, "rb") as received:
        answer = read_event(received)
        assert received.read() == b"", "nothing else was written"
    assert answer is not None
    assert len(Info.from_event(answer).tts[0].voices) == 6


def test_invalid_address_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="not a valid address to serve at"):
        create_server("http://127.0.0.1:10200")


def test_unix_socket_in_use_and_other_files_are_left(tmp_path: Path) -> None:
    path = tmp_path / "wyoming"
    server = create_server(f"unix://{path}")

    async def check() -> None:
        path.write_text("kept")
        with pytest.raises(InvalidOption, match="File exists"):
            await check_address(server)
        assert path.read_text() == "kept"
        path.unlink()
        met = asyncio.Event()

        def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()
            met.set()

        other = await asyncio.start_unix_server(close, path)
        with pytest.raises(InvalidOption, match="already in use"):
            await check_address(server)
        assert path.is_socket()
        await met.wait()
        other.close()
        await other.wait_closed()
        await check_address(server)  # the socket of a server that has ended is replaced

    run(check)
