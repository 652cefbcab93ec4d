"""The Wyoming protocol of Home Assistant: list voices, and speak texts whole or while they are being written.

    describe                            info, with the voices
    synthesize                          audio-start, audio-chunk…, audio-stop
    synthesize-start, -chunk…, -stop    the same, as soon as a sentence or clause is complete; then synthesize-stopped

All chunks of a text are one conversation for the model, as in a live session (`api.speech.live`). The protocol has no
keys: anyone who reaches the port can use the voices of the command line.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable
from wyoming.info import Attribution, Describe, Info, TtsProgram, TtsVoice
from wyoming.ping import Ping, Pong
from wyoming.server import AsyncEventHandler, AsyncServer, AsyncStdioServer, AsyncUnixServer
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from api.errors import detail_of
from api.speech.delivery import AudioOutput, open_stream
from api.speech.text_feed import TextFeed
from engine import __version__
from engine.errors import InvalidOption
from engine.languages import language_tag, language_tags
from studio.access import Caller
from studio.speech_service import VoiceChoice
from studio.voices.available_voices import by_name

if TYPE_CHECKING:
    from api.context import ApiContext
    from api.speech.stream import EncodedSpeech
    from engine.text import GrowingText
    from studio.voices.available_voices import ListedVoice

WIDTH, CHANNELS = 2, 1  # bytes of a sample; mono
MAX_EVENT = 1 << 20  # bytes of an event's data, and of its payload
UNREAD_SECONDS = 600.0  # for an event to be read, as for a web socket: a client may play what it reads
_NO_EVENT = (KeyError, AttributeError, TypeError, RecursionError)  # raised for JSON of another form
_OURS = Attribution(name="Reprise", url="")


def create_server(uri: str) -> AsyncServer:
    """Create a server at tcp://HOST:PORT, unix://PATH or stdio://. Raises InvalidOption for another address."""
    try:
        return AsyncServer.from_uri(uri)
    except ValueError as error:
        raise InvalidOption(
            f"“{uri}” is not a valid address to serve at: write it as tcp://127.0.0.1:10200."
        ) from error


class _EventReader:
    """The part of a StreamReader that reading events needs, with a limit of their length."""

    def __init__(self, source: asyncio.StreamReader) -> None:
        self.readline = source.readline  # has a limit of its own
        self.feed_eof = source.feed_eof
        self._source = source

    async def readexactly(self, n: int) -> bytes:
        """Read n bytes. Raises IncompleteReadError, ValueError for too many."""
        if n > MAX_EVENT:
            raise ValueError(f"an event of {n} bytes")
        return await self._source.readexactly(n)


class WyomingHandler(AsyncEventHandler):
    """One connection. Its texts are spoken one after another. Speech ends at once when the client disconnects."""

    def __init__(self, context: ApiContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(_EventReader(reader), writer)  # type: ignore[arg-type]
        _notice_vanishing(writer)
        self._context, self._caller = context, Caller()
        self._voice: SynthesizeVoice | None = None  # of the text being written
        self._writing = False  # between synthesize-start and synthesize-stop
        self._feed: TextFeed | None = None  # of the text being written and spoken
        self._sending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the connection until either side ends it, or sends what is no event."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, *_NO_EVENT):
            await super().run()
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self.writer.wait_closed()
        except OSError:  # also TimeoutError, and what has ended the connection
            self.writer.transport.abort()  # a client that has ended its side and reads nothing

    async def handle_event(self, event: Event) -> bool:
        """Handle an event. An error is sent and ends the connection, since a client may be waiting for audio only."""
        try:
            await self._handle(event)
        except Exception as error:
            await self._fail(error)
            return False
        return True

    async def disconnect(self) -> None:
        """End the speech in progress."""
        if self._feed is not None:
            self._feed.close()
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending

    async def _handle(self, event: Event) -> None:
        if Describe.is_type(event.type):
            await self._send(await run_in_threadpool(self._info))
        elif Ping.is_type(event.type):
            await self._send(Pong(Ping.from_event(event).text))
        elif Synthesize.is_type(event.type):
            if not self._writing:  # else it repeats the text, for servers without the streaming events
                whole = Synthesize.from_event(event)
                await self._begin(whole.voice, whole.text, AudioStop())
        elif SynthesizeStart.is_type(event.type):
            start = SynthesizeStart.from_event(event)
            if self._feed is not None:  # the text before had no stop: it ends here
                self._feed.finish()
                self._feed = None
            self._voice, self._writing = start.voice, True
        elif SynthesizeChunk.is_type(event.type) and self._writing:
            await self._write(SynthesizeChunk.from_event(event).text)
        elif SynthesizeStop.is_type(event.type) and self._writing:
            feed, self._feed, self._writing = self._feed, None, False
            if feed is None:
                await self._finish_sending()
                await self._send(SynthesizeStopped())
            else:
                feed.finish()

    async def _write(self, piece: str) -> None:
        if self._feed is None:
            growing = await self._context.jobs.speeches.run(self._caller, self._context.app.engine.growing_text)
            await self._begin(self._voice, growing, AudioStop(), SynthesizeStopped())
            self._feed = TextFeed(self._context.speech, self._caller, growing)
        await self._feed.append(piece)

    async def _begin(self, voice: SynthesizeVoice | None, text: str | GrowingText, *end: Eventable) -> None:
        """Start speaking after the previous text. end: messages to send after the audio."""
        await self._finish_sending()
        name = await run_in_threadpool(self._voice_name, voice)
        stream = await open_stream(self._context, self._caller, text, VoiceChoice(name), AudioOutput("pcm"))
        self._sending = asyncio.create_task(self._send_audio(stream, end))
        await asyncio.sleep(0)  # until it runs: if cancelled before, it would not end the speech

    async def _finish_sending(self) -> None:
        if self._sending is not None:
            await self._sending
            self._sending = None

    async def _send_audio(self, stream: EncodedSpeech, end: Sequence[Eventable]) -> None:
        """Send a speech while it is generated."""
        rate = stream.sample_rate
        try:
            await stream.begin()
            await self._send(AudioStart(rate, WIDTH, CHANNELS))
            async for data in stream:
                await self._send(AudioChunk(rate, WIDTH, CHANNELS, data))
            for message in end:
                await self._send(message)
        except Exception as error:
            await self._fail(error)
            await self.stop()
        finally:
            stream.close()

    async def _fail(self, error: Exception) -> None:
        detail = detail_of(error)
        with suppress(ConnectionError):
            await self._send(Error(detail.message, detail.code or detail.type))

    async def _send(self, message: Eventable) -> None:
        """Send a message. Raises ConnectionError, also for a client that does not read."""
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self.write_event(message.event())
        except TimeoutError as error:
            self.writer.transport.abort()  # closing would wait for the client, too
            raise ConnectionAbortedError from error

    def _info(self) -> Info:
        tags = language_tags(self._context.app.engine.info.capabilities.languages)
        program = TtsProgram(
            name="reprise",
            attribution=_OURS,
            installed=True,
            description="Speech in cloned voices",
            version=__version__,
            voices=[_described(record, tags) for record in self._voices()],
            supports_synthesize_streaming=True,
        )
        return Info(tts=[program])

    def _voice_name(self, voice: SynthesizeVoice | None) -> str | None:
        """Return the requested voice's name, or else the first voice's, preferably one of the requested language."""
        if voice is not None and voice.name:
            return voice.name
        voices = self._voices()
        if voice is not None and voice.language:
            wanted = language_tag(voice.language)
            voices = [record for record in voices if language_tag(record.language) == wanted] or voices
        return voices[0].name if voices else None

    def _voices(self) -> list[ListedVoice]:
        return by_name(self._context.app.voices.list(owner=self._caller.owner))


async def serve(context: ApiContext, server: AsyncServer, ready: Callable[[], object] = lambda: None) -> None:
    """Serve until the process is stopped. ready: called when clients can connect.

    Raises InvalidOption if the address is taken or cannot be served at.
    """
    handler = partial(WyomingHandler, context)
    if isinstance(server, AsyncStdioServer):
        ready()
        await server.run(handler)
        return
    await _listen(server, handler)
    ready()
    try:
        await _terminated()
    finally:
        await server.stop()


async def check_address(server: AsyncServer) -> None:
    """Raise InvalidOption if the server's address is taken or cannot be served at, before a model is loaded."""
    await _listen(server, AsyncEventHandler)
    await server.stop()


async def _listen(server: AsyncServer, handler: Callable[..., AsyncEventHandler]) -> None:
    try:
        if isinstance(server, AsyncUnixServer):
            await _check_unused(server.socket_path)
        await server.start(handler)
    except OSError as error:
        why = _reason(error)
        raise InvalidOption(f"Wyoming cannot be served at this address ({why}); choose another by --uri.") from error


async def _check_unused(path: Path) -> None:
    """Raise OSError if a server listens at a path, or it is another file: starting a server deletes what is there."""
    if path.exists() and not path.is_socket():
        raise OSError(errno.EEXIST, "")
    with suppress(FileNotFoundError, ConnectionRefusedError):  # the socket of a server that has ended can be replaced
        _, writer = await asyncio.open_unix_connection(path)
        writer.close()
        raise OSError(errno.EADDRINUSE, "")


def _reason(error: OSError) -> str:
    """Return the system's reason, before which asyncio puts the attempt and the number."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


async def _terminated() -> None:
    """Wait for SIGTERM."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError, ValueError):  # on Windows; outside of the main thread
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


def _notice_vanishing(writer: asyncio.StreamWriter) -> None:
    """Have the system end the connection of a client that has vanished without a word: the protocol has no keepalive
    of the server."""
    with suppress(AttributeError, OSError):  # standard output
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _described(record: ListedVoice, tags: list[str]) -> TtsVoice:
    """tags: the model's languages; any voice may speak all of them."""
    return TtsVoice(
        name=record.name,
        attribution=_OURS,
        installed=True,
        description=record.description or record.name,
        version=None,
        languages=tags or [record.language or "en"],
    )
