"""From what a caller asks for to the bytes that it gets: the way of every speech of the API.

stream = await open_stream(context, caller, text, SpokenBy("Clara"), AudioOutput("mp3"))
return await respond(context, stream, request, headers)   # while it is made
data = await whole(context, stream)                        # or all at once
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.errors import CLIENT_GONE
from api.speech.stream import MEDIA_TYPES, SpeechStream, SpokenWord, Usage
from engine.audio.stream import StreamEncoder, StreamFormat
from studio.origin import Origin

if TYPE_CHECKING:
    from api.context import ApiContext
    from engine.text import GrowingText
    from studio.access import Caller
    from studio.speech_service import SpokenBy
    from studio.watermark import Watermark

BINARY = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in MEDIA_TYPES.values()}  # for OpenAPI


@dataclass(frozen=True)
class AudioOutput:
    """The audio that is asked for. sample_rate: Hz; None for the model's own. speed: the pitch stays."""

    format: StreamFormat
    sample_rate: int | None = None
    speed: float = 1.0


async def open_stream(
    context: ApiContext,
    caller: Caller,
    text: str | GrowingText,
    by: SpokenBy,
    output: AudioOutput,
    *,
    max_frames: int | None = None,
    seed: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    instructions: str = "",
    language: str = "",
    word_times: bool = False,
    complete: bool = False,
) -> SpeechStream:
    """Begin to speak; the speech ends at `max_frames`. The options are those of `SpeechService.speak`.

    complete: it is read by `whole`, and so it can carry the watermark, where the server writes one.
    """
    speech = await run_in_threadpool(
        context.speech.speak,
        caller,
        text,
        by,
        seed=seed,
        temperature=temperature,
        top_p=top_p,
        instructions=instructions,
        language=language,
        word_times=word_times,
    )
    tags = Origin.of(context.app.engine.name, speech.voice, speech.seed).tags()
    stream = StreamEncoder(
        output.format, speech.sample_rate, sample_rate=output.sample_rate, speed=output.speed, tags=tags
    )
    mark = context.app.watermark if complete else None
    encoder = MarkedFile(stream, speech.sample_rate, mark) if mark else stream
    return SpeechStream(speech, encoder, Usage(len(text)), max_frames=max_frames)


class MarkedFile:
    """An `Encoder` of a file with a watermark: it keeps all samples, and makes the file at the end."""

    def __init__(self, encoder: StreamEncoder, source_rate: int, watermark: Watermark) -> None:
        """source_rate: Hz of the samples."""
        self.format, self.sample_rate, self.speed = encoder.format, encoder.sample_rate, encoder.speed
        self._encoder, self._source_rate, self._watermark = encoder, source_rate, watermark
        self._samples: list[NDArray[np.floating]] = []

    def encode(self, samples: NDArray[np.floating]) -> bytes:
        """Keep float samples [n], mono; the bytes come at the end."""
        self._samples.append(samples)
        return b""

    def finish(self) -> bytes:
        """The whole file."""
        samples = np.concatenate([np.zeros(0, np.float32), *self._samples])
        return self._encoder.encode(self._watermark.mark(samples, self._source_rate)) + self._encoder.finish()


async def respond(
    context: ApiContext,
    stream: SpeechStream,
    request: Request,
    headers: Mapping[str, str],
    content: AsyncIterator[bytes] | None = None,
    media_type: str | None = None,
) -> Response:
    """A response that begins with the first audio, while more is made. A client that is gone ends its speech.

    content: what is sent instead of the audio itself, of this media type.
    """
    if await left_before_audio(context, stream, request):
        return Response(status_code=CLIENT_GONE)
    parts = _counted(context, stream, content or aiter(stream))
    return StreamingResponse(parts, 200, dict(headers), media_type or stream.media_type)


async def left_before_audio(context: ApiContext, stream: SpeechStream, request: Request) -> bool:
    """Wait for the first audio, and watch the client meanwhile and from then on. Returns whether it is gone."""
    stream.watch(request.receive)
    await stream.begin()
    if stream.gone:
        context.metrics.count(stream.usage, gone=True)
    return stream.gone


async def whole(context: ApiContext, stream: SpeechStream, words: list[SpokenWord] | None = None) -> bytes:
    """All of a speech as one file. words: to which its words are appended, where their times were asked for."""

    async def audio() -> AsyncIterator[bytes]:
        async for part in stream.parts():
            if words is not None:
                words.extend(part.words)
            yield part.data

    data = b"".join([part async for part in _counted(context, stream, audio())])
    return _with_lengths(data) if stream.format == "wav" else data


async def _counted(context: ApiContext, stream: SpeechStream, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts, with the speech counted when it is over."""
    try:
        async for part in parts:
            yield part
    except (asyncio.CancelledError, GeneratorExit):
        stream.gone = True
        raise
    finally:
        stream.close()
        context.metrics.count(stream.usage, gone=stream.gone)


def _with_lengths(wav: bytes) -> bytes:
    """A wav that was written as a stream, with the lengths in its header."""
    samples = wav.index(b"data\xff\xff\xff\xff") + 8
    sizes = [(len(wav) - 8).to_bytes(4, "little"), (len(wav) - samples).to_bytes(4, "little")]
    return wav[:4] + sizes[0] + wav[8 : samples - 4] + sizes[1] + wav[samples:]
