"""`POST /v1/audio/speech`: OpenAI's speech operation, with what servers of open models add to it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from api.access import caller_of
from api.context import COMMON_MODELS, ApiContext, context_of
from api.errors import CLIENT_GONE, detail_of, documented, error_response, invalid_response
from api.streams import SpeechStream, Usage
from engine.audio.stream import FASTEST, HIGHEST_RATE, LOWEST_RATE, SLOWEST, StreamEncoder, StreamFormat
from engine.engine import MAX_SEED
from engine.errors import InvalidInput
from studio.access import Caller
from studio.speech_service import MAX_CHARACTERS, SpokenBy

PCM_RATE = 24_000  # Hz; OpenAI's raw samples have no header that would say so
CONTENT_TYPES: dict[StreamFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}

router = APIRouter(tags=["speech"])


def _voice_name(voice: Any) -> Any:
    """The name in OpenAI's two forms of a voice: a string, and an object with an id."""
    return voice["id"] if isinstance(voice, dict) and set(voice) == {"id"} else voice


_VOICE_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": 200},
        {
            "type": "object",
            "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 200}},
            "required": ["id"],
            "additionalProperties": False,
        },
    ],
    "description": "Name or id of a saved voice, a name of OpenAI's voices, or an object with one of them as `id`.",
}
VoiceName = Annotated[
    str, Field(min_length=1, max_length=200), BeforeValidator(_voice_name), WithJsonSchema(_VOICE_SCHEMA)
]


class SpeechRequest(BaseModel):
    """What to say, and how. Fields of other servers that mean nothing here are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field("tts-1", max_length=200, description="The loaded model, or one of OpenAI's names for it.")
    input: str = Field(min_length=1, max_length=MAX_CHARACTERS, description="The text.")
    voice: VoiceName | None = Field(None, description="Required unless `ref_audio` is given.")
    response_format: StreamFormat = "mp3"
    speed: float = Field(1.0, ge=SLOWEST, le=FASTEST, allow_inf_nan=False, description="The pitch stays.")
    instructions: str = Field(
        "", max_length=4096, description="How to speak; without effect for a model without style tags."
    )
    stream_format: Literal["audio", "sse"] = "audio"
    stream: bool = Field(True, description="False: the response begins when all is made, and its headers tell usage.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Equal seeds give equal speech.")
    ref_audio: str | None = Field(
        None, description="A clip of the voice, as a data URL (`data:audio/wav;base64,…`), or uploaded in a form."
    )
    ref_text: str = Field("", max_length=10_000, description="The words spoken in `ref_audio`.")
    language: str = Field("", max_length=40, description="Refused where the model does not speak it.")
    max_new_tokens: int | None = Field(None, ge=1, le=1_000_000, description="Most frames; the speech ends there.")
    sample_rate: int | None = Field(
        None, ge=LOWEST_RATE, le=HIGHEST_RATE, description="Hz. Default: 24,000 for pcm, else the model's own."
    )


_SCHEMA = SpeechRequest.model_json_schema()
_REQUEST_BODY = {
    "required": True,
    "content": {"application/json": {"schema": _SCHEMA}, "multipart/form-data": {"schema": _SCHEMA}},
}
_SPEECH: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Audio, or server-sent events with audio in base64, while it is made.",
        "content": {
            **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in CONTENT_TYPES.values()},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    },
    **documented(404, 408, 413, 415),
}


@router.post(
    "/v1/audio/speech",
    operation_id="create_speech",
    response_class=StreamingResponse,
    responses=_SPEECH,
    openapi_extra={"requestBody": _REQUEST_BODY},
)
async def create_speech(request: Request) -> Response:
    """Speak a text. The response begins with the first audio."""
    context, caller = context_of(request), caller_of(request)
    try:
        asked, clip = await _read(request)
    except ValidationError as error:
        return invalid_response(error.errors(include_url=False, include_context=False))
    if not context.knows_model(asked.model):
        return unknown_model(context, asked.model)
    stream = await begin_speech(context, caller, asked, clip)
    stream.watch(request.receive)
    await stream.begin()
    if stream.gone:
        context.metrics.count(stream.usage, gone=True)
        return Response(status_code=CLIENT_GONE)
    headers = {
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",  # a proxy that collects the response would undo the streaming
        "X-Usage-Characters": str(len(asked.input)),
        "X-Seed": str(stream.seed),
    }
    if asked.stream_format == "sse":
        return StreamingResponse(counted(context, stream, _events(stream)), 200, headers, "text/event-stream")
    kind = content_type(asked.response_format, stream.sample_rate)
    if asked.stream:
        return StreamingResponse(counted(context, stream, aiter(stream)), 200, headers, kind)
    data = b"".join([part async for part in counted(context, stream, aiter(stream))])
    usage = {"X-Usage-Seconds": f"{stream.usage.seconds:.3f}", "X-Usage-Frames": str(stream.usage.frames)}
    return Response(complete(data, asked.response_format), 200, {**headers, **usage}, kind)


async def begin_speech(context: ApiContext, caller: Caller, asked: SpeechRequest, clip: bytes | None) -> SpeechStream:
    """Begin to speak what was asked. clip: of the voice. Raises RepriseError."""
    if clip is None and asked.voice is None:
        raise InvalidInput("voice: name a voice, or give a clip of one as ref_audio with its words as ref_text.")
    rate = asked.sample_rate or (PCM_RATE if asked.response_format == "pcm" else None)
    speech = await run_in_threadpool(
        context.speech.speak,
        caller,
        asked.input,
        SpokenBy(None if clip else asked.voice, clip, asked.ref_text),
        seed=asked.seed,
        instructions=asked.instructions,
        language=asked.language,
    )
    encoder = StreamEncoder(asked.response_format, speech.sample_rate, sample_rate=rate, speed=asked.speed)
    return SpeechStream(speech, encoder, Usage(len(asked.input)), max_frames=asked.max_new_tokens)


def unknown_model(context: ApiContext, name: str) -> Response:
    """The response to a request for another model than the loaded one."""
    known = ", ".join([context.model, *COMMON_MODELS])
    return error_response(
        404, f"The model “{name}” is not loaded here; ask for {known}.", param="model", code="model_not_found"
    )


def content_type(format: StreamFormat, sample_rate: int) -> str:
    """The Content-Type of a format; of raw samples with what their reader has to know."""
    return f"{CONTENT_TYPES[format]};rate={sample_rate};channels=1" if format == "pcm" else CONTENT_TYPES[format]


def complete(data: bytes, format: StreamFormat) -> bytes:
    """A stream that has ended, as a file: with lengths in the header of a wav."""
    if format != "wav":
        return data
    sizes = [(len(data) - 8).to_bytes(4, "little"), (len(data) - 44).to_bytes(4, "little")]
    return data[:4] + sizes[0] + data[8:40] + sizes[1] + data[44:]


async def _read(request: Request) -> tuple[SpeechRequest, bytes | None]:
    """The request of a body, JSON or a form, and its clip. Raises ValidationError, HTTPException, InvalidInput."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    clip: bytes | None = None
    if kind == "multipart/form-data":
        async with request.form(max_files=1, max_fields=20) as form:
            values, clip = await _form_values(form)
    elif kind in ("application/json", ""):
        try:
            values = json.loads(await request.body())
        except ValueError as error:
            raise HTTPException(400, "The body is not JSON.") from error
    else:
        raise HTTPException(415, "Send the request as application/json or multipart/form-data.")
    asked = SpeechRequest.model_validate(values)
    return asked, clip or (data_url(asked.ref_audio) if asked.ref_audio else None)


async def _form_values(form: FormData) -> tuple[dict[str, Any], bytes | None]:
    values = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    clip = form.get("ref_audio")
    return values, await clip.read() if isinstance(clip, UploadFile) else None


def data_url(url: str, field: str = "ref_audio") -> bytes:
    """The bytes of a data URL. Raises InvalidInput for any other: this server fetches nothing. field: that holds it."""
    head, comma, data = url.partition(",")
    if not (head.lower().startswith("data:") and comma):
        raise InvalidInput(f"{field}: send the clip as a data URL (data:audio/wav;base64,…); no address is fetched.")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{field}: the data URL does not hold base64.") from error


async def counted(context: ApiContext, stream: SpeechStream, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts, with the speech counted when it is over."""
    try:
        async for part in parts:
            yield part
    finally:
        stream.close()
        context.metrics.count(stream.usage, gone=stream.gone)


async def _events(stream: SpeechStream) -> AsyncIterator[bytes]:
    """Server-sent events: audio in base64, then the usage; or an error, since the status was sent."""
    try:
        async for part in stream:
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(part).decode()})
    except Exception as error:
        yield _event({"type": "error", "error": detail_of(error).model_dump()})
        return
    usage = stream.usage
    told = {
        "input_tokens": usage.characters,
        "output_tokens": usage.frames,
        "total_tokens": usage.characters + usage.frames,
        "characters": usage.characters,
        "frames": usage.frames,
        "seconds": round(usage.seconds, 3),
    }
    yield _event({"type": "speech.audio.done", "usage": told})


def _event(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
