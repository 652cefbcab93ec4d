"""Speech streams: audio is generated and encoded in a thread, and sent by the event loop.

The engine never waits for a client: audio is buffered until it is sent, which the request's length bounds. When the
client disconnects, its speech ends within one frame.

If the model retries a segment, a stream contains both attempts, since the client may have played the first one; if the
second one was worse, the first one follows again. Speech that is sent as a whole contains the better attempt only.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from engine.audio.output.stream import StreamFormat
from studio.engines.speech_metrics import Usage

if TYPE_CHECKING:
    from engine.outputs import AudioChunk, SpeechResult


T = TypeVar("T")

MEDIA_TYPES: dict[StreamFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


class ChunkSource(Protocol):
    """A speech. sample_rate: Hz."""

    sample_rate: int

    @property
    def seed(self) -> int: ...
    @property
    def result(self) -> SpeechResult | None: ...
    def __next__(self) -> AudioChunk: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...


class ChunkEncoder(Protocol):
    """An `engine.audio.output.stream.StreamEncoder`."""

    format: StreamFormat
    sample_rate: int
    speed: float

    def encode(self, samples: NDArray[np.floating]) -> bytes: ...
    def finish(self) -> bytes: ...


class SpokenWord(BaseModel):
    """A word as written. start, end: seconds in the sent audio."""

    word: str
    start: float
    end: float


@dataclass(frozen=True)
class Part:
    """Bytes of a stream, and the chunk that was encoded; None at the end. An encoder may delay bytes, so `data` may be
    empty.

    words: those whose times have become known; their audio may follow later.
    """

    data: bytes
    chunk: AudioChunk | None
    words: Sequence[SpokenWord] = ()


async def disconnected(receive: Receive) -> None:
    """Wait until a request's client disconnects. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which is cancelled when the request's client disconnects. The body must have been
    read. Raises ClientDisconnect.
    """
    working = asyncio.create_task(work)
    gone = asyncio.create_task(disconnected(receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        gone.cancel()


class EncodedSpeech:
    """The encoded bytes of one speech. Iterate it once, in the event loop in which it was created.

    seed: of the speech. format, sample_rate (Hz): of the sent audio. gone: whether the client has disconnected. failed:
    whether the speech ended with an error.
    """

    def __init__(
        self,
        speech: ChunkSource,
        encoder: ChunkEncoder,
        usage: Usage,
        *,
        max_frames: int | None = None,
        as_whole: bool = False,
    ) -> None:
        """max_frames: the length at which the speech ends. as_whole: whether it is sent as a whole."""
        self.usage, self.gone, self.failed = usage, False, False
        self.seed, self.format, self.sample_rate = speech.seed, encoder.format, encoder.sample_rate
        self._speech, self._encoder, self._max_frames, self._as_whole = speech, encoder, max_frames, as_whole
        self._loop, self._parts = asyncio.get_running_loop(), asyncio.Queue[Part | Exception | None]()
        self._first: list[Part] = []
        self._ended = False  # whether the end, or an error, has been taken from the queue
        self._watch: asyncio.Task[None] | None = None
        threading.Thread(target=self._work, name="reprise-api-speech", daemon=True).start()

    @property
    def media_type(self) -> str:
        """The Content-Type of the bytes; for raw samples with sampling rate and channels."""
        kind = MEDIA_TYPES[self.format]
        return f"{kind};rate={self.sample_rate};channels=1" if self.format == "pcm" else kind

    def watch(self, receive: Receive) -> None:
        """Cancel the speech when the client disconnects. receive: of its request; the body must have been read."""
        self._watch = asyncio.create_task(self._watch_client(receive))

    async def begin(self) -> None:
        """Wait for the first bytes, or the end of a speech without any, so that an error before them is raised here."""
        while (part := await self._next()) is not None:
            self._first.append(part)
            if part.data:
                break

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self.parts():
            if part.data:
                yield part.data

    async def parts(self) -> AsyncIterator[Part]:
        """Yield the bytes with the chunks that they belong to."""
        try:
            if not self._first:
                await self.begin()
            for part in self._first:
                yield part
            while (found := await self._next()) is not None:
                yield found
        finally:
            self.close()

    def close(self) -> None:
        """Cancel the rest of the speech."""
        self._speech.cancel()
        if self._watch is not None:
            self._watch.cancel()

    async def _next(self) -> Part | None:
        """Return the next part; None after the last one, however often it is called."""
        if self._ended:
            return None
        part = await self._parts.get()
        self._ended = not isinstance(part, Part)
        if isinstance(part, Exception):
            raise part
        return part

    async def _watch_client(self, receive: Receive) -> None:
        await disconnected(receive)
        self.gone = True
        self._speech.cancel()

    def _work(self) -> None:
        try:
            for chunk in self._last_attempts() if self._as_whole else self._chunks():
                words = self._spoken(chunk)
                sent = self._counted(chunk)
                self._put(Part(self._encoder.encode(sent.samples), sent, words))
                if self.usage.frames == self._max_frames:
                    break
            self._put(Part(self._encoder.finish(), None))
            self._put(None)
        except Exception as error:
            self.failed = True
            self._put(error)
        finally:
            self._speech.close()

    def _chunks(self) -> Iterator[AudioChunk]:
        while (chunk := next(self._speech, None)) is not None:
            yield chunk

    def _last_attempts(self) -> Iterator[AudioChunk]:
        """Yield each segment when it is complete, without attempts that the model has retried."""
        held: list[AudioChunk] = []  # of the segment that is being spoken
        for chunk in self._chunks():
            held = [each for each in held if each.start + len(each.samples) <= chunk.start]
            if held and held[0].segment != chunk.segment:
                yield from held
                held = []
            held.append(chunk)
            if self._max_frames is not None:
                frames = self.usage.frames + sum(each.frames for each in held)
                if frames >= self._max_frames:
                    break
        yield from held

    def _spoken(self, chunk: AudioChunk) -> list[SpokenWord]:
        """Return a chunk's words with their times in the stream, which a retry delays relative to the take."""
        rate, speed = self._speech.sample_rate, self._encoder.speed
        shift = self.usage.seconds - chunk.start / rate / speed
        return [
            SpokenWord(
                word=word.text, start=_rounded(word.start / speed + shift), end=_rounded(word.end / speed + shift)
            )
            for word in chunk.words
        ]

    def _counted(self, chunk: AudioChunk) -> AudioChunk:
        """Count a chunk, and return it cut at the frame limit."""
        usage, frames = self.usage, chunk.frames
        if self._max_frames is not None:
            frames = min(frames, self._max_frames - usage.frames)
        share = frames / chunk.frames if chunk.frames else 1  # a pause has no frames
        samples = chunk.samples[: round(len(chunk.samples) * share)]
        usage.frames += frames
        usage.seconds += len(samples) / self._speech.sample_rate / self._encoder.speed
        if usage.first_audio is None and chunk.frames:
            usage.first_audio = chunk.elapsed
        return replace(chunk, samples=samples, frames=frames)

    def _put(self, part: Part | Exception | None) -> None:
        with suppress(RuntimeError):  # the server has stopped and its loop is closed
            self._loop.call_soon_threadsafe(self._parts.put_nowait, part)


def _rounded(seconds: float) -> float:
    """Round to milliseconds. A difference of two equal times can be less than zero by a rounding error."""
    return round(seconds, 3) + 0.0  # never -0.0
