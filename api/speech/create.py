"""`POST /v1/audio/speech`: OpenAI's speech operation, with the extensions of open-model servers."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from api.access import caller_of
from api.context import ApiContext, context_of
from api.errors import CLIENT_GONE, detail_of, documented
from api.speech.delivery import BINARY, collect, left_before_audio, open_stream, respond, speech_headers
from api.speech.request import SpeechRequest, inline_schema, read_speech_request
from api.speech.stream import EncodedSpeech
from engine.errors import InvalidInput
from engine.text import GrowingText
from studio.access import Caller
from studio.speech_service import RequestedOptions, VoiceChoice

EVENTS = "text/event-stream"

router = APIRouter(tags=["speech"])

_SCHEMA = inline_schema(SpeechRequest)
_UPLOAD = {"type": "string", "format": "binary", "description": "A clip of the voice."}
_FORM = {**_SCHEMA, "properties": {**_SCHEMA["properties"], "ref_audio": _UPLOAD}}
_REQUEST_BODY = {
    "required": True,
    "content": {"application/json": {"schema": _SCHEMA}, "multipart/form-data": {"schema": _FORM}},
}
_SPEECH: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Audio, or server-sent events with audio in base64, while it is made.",
        "content": {**BINARY, EVENTS: {"schema": {"type": "string"}}},
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
    asked, clip = await read_speech_request(request)
    if asked.timestamp_granularities and asked.stream_format != "sse":
        raise InvalidInput("timestamp_granularities: the times come as events; ask for them with stream_format “sse”.")
    if clip is None:
        clip = await clip_of(context, asked)
    in_parts = asked.stream or asked.stream_format == "sse"
    stream = await begin_speech(context, caller, asked, clip, as_whole=not in_parts)
    headers = speech_headers(stream)
    if asked.stream_format == "sse":
        return await respond(context, stream, request, headers, _events(stream), EVENTS)
    if in_parts:
        return await respond(context, stream, request, headers)
    if await left_before_audio(context, stream, request):
        return Response(status_code=CLIENT_GONE)
    data = await collect(context, stream)
    usage = {"X-Usage-Seconds": f"{stream.usage.seconds:.3f}", "X-Usage-Frames": str(stream.usage.frames)}
    return Response(data, 200, {**headers, **usage}, stream.media_type)


async def clip_of(context: ApiContext, asked: SpeechRequest) -> bytes | None:
    """Return the clip in `ref_audio`, if there is one. Raises InvalidInput."""
    return await context.clips.read(asked.ref_audio) if asked.ref_audio else None


async def begin_speech(
    context: ApiContext,
    caller: Caller,
    asked: SpeechRequest,
    clip: bytes | None,
    *,
    text: GrowingText | None = None,
    word_times: bool = False,
    as_whole: bool = False,
) -> EncodedSpeech:
    """Start the requested speech. clip: of the voice. text: replaces the input. as_whole: as for `open_stream`.

    Raises RepriseError.
    """
    context.check_model(asked.model)
    designs = context.app.engine.info.capabilities.designs_voices
    if clip is None and asked.voice is None and not (designs and asked.instructions):
        raise InvalidInput("voice: name a voice, or give a clip of one as ref_audio with its words as ref_text.")
    return await open_stream(
        context,
        caller,
        asked.input if text is None else text,
        VoiceChoice(asked.voice if clip is None else None, clip, asked.ref_text),
        asked.output,
        RequestedOptions(
            seed=asked.seed,
            instructions=asked.instructions,
            language=asked.language,
            word_times=word_times or bool(asked.timestamp_granularities),
        ),
        max_frames=asked.max_new_tokens,
        as_whole=as_whole,
    )


async def _events(stream: EncodedSpeech) -> AsyncIterator[bytes]:
    """Yield server-sent events: base64 audio, word times, then usage; or an error, since the status has been sent."""
    try:
        async for part in stream.parts():
            if part.words:
                yield server_sent_event(
                    {"type": "speech.audio.words", "words": [word.model_dump() for word in part.words]}
                )
            if part.data:
                yield server_sent_event({"type": "speech.audio.delta", "audio": base64.b64encode(part.data).decode()})
    except Exception as error:
        yield server_sent_event({"type": "error", "error": detail_of(error).model_dump()})
        return
    spent = stream.usage
    usage = {
        "input_tokens": spent.characters,
        "output_tokens": spent.frames,
        "total_tokens": spent.characters + spent.frames,
        "characters": spent.characters,
        "frames": spent.frames,
        "seconds": round(spent.seconds, 3),
    }
    yield server_sent_event({"type": "speech.audio.done", "usage": usage})


def server_sent_event(content: dict[str, Any]) -> bytes:
    """Return an event with JSON, as OpenAI's server sends them."""
    return f"data: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
