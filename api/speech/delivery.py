"""From a caller's request to encoded bytes: the path of all speech in the API.

stream = await open_stream(context, caller, text, VoiceChoice("Clara"), AudioOutput("mp3"))
return await respond(context, stream, request, headers)   # while it is generated
data = await collect(context, stream)                      # or all at once
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.errors import CLIENT_GONE
from api.speech.silence import Silence, can_be_silence
from api.speech.stream import MEDIA_TYPES, ChunkEncoder, EncodedSpeech, SpokenWord
from engine.audio.output.mastering import at_loudness
from engine.audio.output.stream import LOSSY, StreamEncoder, StreamFormat, written_rate
from engine.errors import InvalidInput, InvalidText
from engine.text.ssml import plain_text
from studio.engines.speech_metrics import Usage
from studio.provenance.provenance import Provenance
from studio.speech_service import NO_OPTIONS, RequestedOptions, VoiceChoice

if TYPE_CHECKING:
    from api.context import ApiContext
    from engine.audio.output.tags import Tags
    from engine.text import GrowingText
    from studio.access import Caller
    from studio.engines.measured_speech import MeasuredSpeech
    from studio.provenance.watermark import Watermark

NO_WORDS = "text.no_words"  # key of the error
NOT_WHOLE = 'lufs: loudness is measured over the whole file, so it needs "stream": false without events, or a batch.'
BINARY = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in MEDIA_TYPES.values()}  # for OpenAPI


@dataclass(frozen=True)
class AudioOutput:
    """The requested audio. sample_rate: Hz; None for the model's own. speed: preserves the pitch. lufs: loudness of the
    whole; None leaves it unchanged.
    """

    format: StreamFormat
    sample_rate: int | None = None
    speed: float = 1.0
    lufs: float | None = None


async def open_stream(
    context: ApiContext,
    caller: Caller,
    text: str | GrowingText,
    voice: VoiceChoice,
    output: AudioOutput,
    asked: RequestedOptions = NO_OPTIONS,
    *,
    max_frames: int | None = None,
    as_whole: bool = False,
) -> EncodedSpeech:
    """Start a speech of at most `max_frames` frames.

    A text without words is silence. as_whole: the speech is read by `collect`. Only then can the loudness be set, the
    watermark added and rejected attempts left out. Raises what `SpeechService.speak` raises, ServerBusy, and
    InvalidInput for a loudness without `as_whole`.
    """
    if output.lufs is not None and not as_whole:
        raise InvalidInput(NOT_WHOLE)
    start = partial(context.speech.speak, caller, text, voice, asked)
    pool = context.jobs.speeches if voice.clip is None else context.jobs.clips
    speech: MeasuredSpeech | Silence
    try:
        speech = await pool.run(caller, start, _end_unheard)
    except InvalidText as error:
        plain = plain_text(text) if isinstance(text, str) else ""
        if error.message.key != NO_WORDS or not can_be_silence(plain):
            raise
        await run_in_threadpool(context.access.spend, caller, len(text))
        speech = Silence(plain, context.app.engine.info.sample_rate, asked.seed)
    tags = Provenance.from_take(context.app.engine.info.name, speech.voice, speech.seed).tags()
    mark = context.app.watermark if as_whole else None
    encoder = _encoder(output, speech.sample_rate, tags, mark, as_whole)
    return EncodedSpeech(speech, encoder, Usage(len(text)), max_frames=max_frames, as_whole=as_whole)


def _end_unheard(speech: MeasuredSpeech) -> None:
    """End and count a speech whose client left before it began."""
    speech.front_end = "api"
    speech.close()


def _encoder(
    output: AudioOutput, source_rate: int, tags: Tags, watermark: Watermark | None, as_whole: bool
) -> ChunkEncoder:
    if watermark or output.lufs is not None:
        return WholeFileEncoder(output, source_rate, tags, watermark)
    return StreamEncoder(
        output.format,
        source_rate,
        sample_rate=output.sample_rate,
        speed=output.speed,
        tags=tags,
        as_whole=as_whole,
    )


class WholeFileEncoder:
    """A `ChunkEncoder` that processes the complete audio before encoding it: the watermark, then the loudness."""

    def __init__(self, output: AudioOutput, source_rate: int, tags: Tags, watermark: Watermark | None) -> None:
        """source_rate: Hz of the samples. tags: of the file."""
        self.format, self.speed = output.format, output.speed
        self.sample_rate = written_rate(output.format, output.sample_rate or source_rate)
        # At the file's speed and sampling rate, so that neither changes the loudness afterwards.
        self._plain = StreamEncoder("pcm", source_rate, sample_rate=self.sample_rate, speed=output.speed)
        self._lufs, self._tags, self._watermark = output.lufs, tags, watermark
        self._samples: list[bytes] = []

    def encode(self, samples: NDArray[np.floating]) -> bytes:
        """Buffer float samples [n], mono. `finish` returns all bytes."""
        self._samples.append(self._plain.encode(samples))
        return b""

    def finish(self) -> bytes:
        """Return the whole file."""
        kept = b"".join([*self._samples, self._plain.finish()])
        samples: NDArray[np.floating] = np.frombuffer(kept, "<i2") / np.float32(32768)
        if self._watermark:
            samples = self._watermark.mark(samples, self.sample_rate)
        if self._lufs is not None:
            samples = at_loudness(samples, self.sample_rate, self._lufs, lossy=self.format in LOSSY)
        rate = self.sample_rate
        file = StreamEncoder(self.format, rate, sample_rate=rate, tags=self._tags, as_whole=True)
        file.encode(samples)
        return file.finish()


def speech_headers(stream: EncodedSpeech) -> dict[str, str]:
    """Return the headers of every speech response, with its characters and its seed."""
    return {
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",  # a proxy that buffers the response would defeat streaming
        "X-Usage-Characters": str(stream.usage.characters),
        "X-Seed": str(stream.seed),
    }


async def respond(
    context: ApiContext,
    stream: EncodedSpeech,
    request: Request,
    headers: Mapping[str, str],
    content: AsyncIterator[bytes] | None = None,
    media_type: str | None = None,
) -> Response:
    """Return a response that starts with the first audio. The speech ends when the client disconnects.

    content: sent instead of the audio itself, with `media_type`.
    """
    if await left_before_audio(context, stream, request):
        return Response(status_code=CLIENT_GONE)
    parts = counted(context, stream, content or aiter(stream))
    return StreamingResponse(parts, 200, dict(headers), media_type or stream.media_type)


async def left_before_audio(context: ApiContext, stream: EncodedSpeech, request: Request) -> bool:
    """Watch the client from now on, and wait for the first audio. Return whether the client has disconnected."""
    stream.watch(request.receive)
    try:
        await stream.begin()
    except Exception:
        _count(context, stream)
        raise
    if stream.gone:
        _count(context, stream)
    return stream.gone


async def collect(context: ApiContext, stream: EncodedSpeech, words: list[SpokenWord] | None = None) -> bytes:
    """Return all of a speech as one file. words: its words are appended here, if their times were requested."""

    async def audio() -> AsyncIterator[bytes]:
        async for part in stream.parts():
            if words is not None:
                words.extend(part.words)
            yield part.data

    return b"".join([part async for part in counted(context, stream, audio())])


async def counted(
    context: ApiContext, stream: EncodedSpeech, parts: AsyncIterator[bytes]
) -> AsyncGenerator[bytes, None]:
    """Yield the parts, and count the speech when it is over."""
    try:
        async for part in parts:
            yield part
    except (asyncio.CancelledError, GeneratorExit):
        stream.gone = True
        raise
    finally:
        stream.close()
        _count(context, stream)


def _count(context: ApiContext, stream: EncodedSpeech) -> None:
    context.app.engine.metrics.count("api", stream.usage, gone=stream.gone, failed=stream.failed)
