"""Fish Audio's API: `POST /v1/tts` with JSON or MessagePack, and `/v1/references/*` of its open-source server.

`api.fish_live` has its WebSocket.

Existing clients only need another base URL. One difference: a reference is saved only with its speaker's consent.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import msgpack
from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from api.access import caller_of
from api.context import ApiContext, context_of
from api.errors import documented
from api.speech.delivery import BINARY, AudioOutput, open_stream, respond, speech_headers
from api.speech.request import IN_LOWER_CASE, OptionalNulls, inline_schema, read_body, validated
from api.speech.stream import EncodedSpeech
from api.voices import ConsentField
from engine.audio.merge import merge_references
from engine.audio.output.stream import HIGHEST_RATE, LOWEST_RATE
from engine.options import MAX_SEED
from engine.text import GrowingText
from engine.voice import MAX_TRANSCRIPT
from studio.access import Caller
from studio.speech_service import MAX_CHARACTERS, RequestedOptions, VoiceChoice
from studio.voices.available_voices import by_name
from studio.voices.voice_maker import make_voice

FISH_PCM_RATE = 44_100  # Hz
MAX_REFERENCES = 8  # clips of one speaker
MAX_PARTS = 1_000  # objects and lists of a request in MessagePack

router = APIRouter(tags=["fish"])


def _clip(value: Any) -> Any:
    """Return a clip's bytes: unchanged from MessagePack, decoded from base64 in JSON."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("it is not base64") from error


def _reference(value: Any) -> Any:
    """Return the name of a voice: None for "", and the only element of a list."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return None if value == "" else value


class FishReference(OptionalNulls):
    """A clip and its transcript."""

    audio: Annotated[bytes, BeforeValidator(_clip)] = Field(json_schema_extra={"format": "byte"})
    text: str = Field("", max_length=MAX_TRANSCRIPT)


class Prosody(OptionalNulls):
    """The speaking rate."""

    speed: float = Field(1.0, ge=0.5, le=2.0, allow_inf_nan=False)


class FishRequest(OptionalNulls):
    """A request in Fish's format. Fields without an equivalent here are ignored."""

    model_config = ConfigDict(extra="ignore")

    text: str = Field(min_length=1, max_length=MAX_CHARACTERS)
    reference_id: Annotated[str | None, BeforeValidator(_reference)] = Field(None, max_length=200)
    references: list[FishReference] = Field(default=[], max_length=MAX_REFERENCES)
    format: Annotated[Literal["mp3", "wav", "pcm", "opus"], IN_LOWER_CASE] = "mp3"
    sample_rate: int | None = Field(None, ge=LOWEST_RATE, le=HIGHEST_RATE)
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    seed: int | None = Field(None, ge=0, le=MAX_SEED)
    prosody: Prosody | None = None


class ReferenceList(BaseModel):
    """Names of the caller's voices."""

    success: bool = True
    reference_ids: list[str]
    message: str = "OK"


class ReferenceDone(BaseModel):
    """An added or deleted reference. message: what may be wrong with an added one, or OK."""

    success: bool = True
    message: str = "OK"
    reference_id: str


class ReferenceRenamed(BaseModel):
    """A renamed reference."""

    success: bool = True
    message: str = "OK"
    old_reference_id: str
    new_reference_id: str


class ReferenceToRename(BaseModel):
    """The old and the new name of a reference."""

    old_reference_id: str = Field(min_length=1, max_length=200)
    new_reference_id: str = Field(min_length=1, max_length=200)


class ReferenceToDelete(BaseModel):
    """The name of a reference."""

    reference_id: str = Field(min_length=1, max_length=200)


def read_msgpack(data: bytes) -> Any:
    """Parse MessagePack of limited size: parsed, an empty list takes 64 times the memory of its byte.

    Raises ValueError for more than 1,000 values in an object or list, or 1,000 objects and lists; and the errors of the
    package.
    """
    parts = itertools.count(1)

    def counted(part: Any) -> Any:
        if next(parts) > MAX_PARTS:
            raise ValueError(f"it has more than {MAX_PARTS:,} objects and lists")
        return part

    limits = {"max_array_len": MAX_PARTS, "max_map_len": MAX_PARTS}
    return msgpack.unpackb(data, list_hook=counted, object_hook=counted, **limits)


_SCHEMA = inline_schema(FishRequest)
_READERS: dict[str, Callable[[bytes], Any]] = {
    "application/json": json.loads,
    "application/msgpack": read_msgpack,
    "application/x-msgpack": read_msgpack,
}


@router.post(
    "/v1/tts",
    operation_id="fish_tts",
    response_class=StreamingResponse,
    responses={
        200: {"content": BINARY},
        **documented(404, 408, 413, 415),
    },
    openapi_extra={"requestBody": {"required": True, "content": {kind: {"schema": _SCHEMA} for kind in _READERS}}},
)
async def fish_tts(request: Request) -> Response:
    """Speak a text; the response begins with the first audio."""
    context, caller = context_of(request), caller_of(request)
    asked = validated(FishRequest, await read_body(request, _READERS))
    stream = await open_fish_stream(context, caller, asked, asked.text)
    return await respond(context, stream, request, speech_headers(stream))


async def open_fish_stream(
    context: ApiContext, caller: Caller, asked: FishRequest, text: str | GrowingText
) -> EncodedSpeech:
    """Start the requested speech of a text. Raises what `open_stream` raises."""
    references = [(reference.audio, reference.text) for reference in asked.references]
    clip, transcript = (
        await context.jobs.clips.run(caller, partial(merge_references, references, context.app.engine.info.sample_rate))
        if references
        else (None, "")
    )
    rate = asked.sample_rate or (FISH_PCM_RATE if asked.format == "pcm" else None)
    return await open_stream(
        context,
        caller,
        text,
        VoiceChoice(asked.reference_id, clip, transcript),
        AudioOutput(asked.format, rate, asked.prosody.speed if asked.prosody else 1.0),
        RequestedOptions(seed=asked.seed, temperature=asked.temperature, top_p=asked.top_p),
    )


@router.get("/v1/references/list", operation_id="fish_list_references", responses=documented())
async def list_references(request: Request) -> ReferenceList:
    """List the names of the model's built-in voices, the caller's and the sample voices."""
    voices = context_of(request).app.voices
    found = await run_in_threadpool(voices.list, owner=caller_of(request).owner)
    return ReferenceList(reference_ids=[record.name for record in by_name(found)])


@router.post("/v1/references/add", operation_id="fish_add_reference", responses=documented(404, 408, 409, 413, 415))
async def add_reference(
    request: Request,
    id: Annotated[str, Form(min_length=1, max_length=200)],
    audio: Annotated[UploadFile, File()],
    text: Annotated[str, Form(max_length=MAX_TRANSCRIPT)] = "",
    consent: ConsentField = "",
) -> ReferenceDone:
    """Save a clip as a voice."""
    context, caller = context_of(request), caller_of(request)
    clip = await audio.read()
    make = partial(make_voice, context.app, id, clip, text, owner=caller.owner, consent=consent)
    record, notes = await context.jobs.voices.run(caller, make)
    return ReferenceDone(reference_id=record.name, message=" ".join(map(str, notes)) or "OK")


@router.post(
    "/v1/references/update", operation_id="fish_rename_reference", responses=documented(403, 404, 408, 409, 413, 415)
)
async def rename_reference(asked: ReferenceToRename, request: Request) -> ReferenceRenamed:
    """Rename a voice."""
    context, caller = context_of(request), caller_of(request)
    record = await run_in_threadpool(
        context.speech.rename_voice, caller, asked.old_reference_id, asked.new_reference_id
    )
    return ReferenceRenamed(old_reference_id=asked.old_reference_id, new_reference_id=record.name)


@router.delete(
    "/v1/references/delete", operation_id="fish_delete_reference", responses=documented(403, 404, 408, 413, 415)
)
async def delete_reference(asked: ReferenceToDelete, request: Request) -> ReferenceDone:
    """Delete a voice."""
    context, caller = context_of(request), caller_of(request)
    record = await run_in_threadpool(context.speech.delete_voice, caller, asked.reference_id)
    return ReferenceDone(reference_id=record.name)
