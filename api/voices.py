"""`/v1/audio/voices`: the caller's voices, made from uploaded clips, in OpenAI's format."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from api.access import caller_of
from api.context import ApiContext, context_of
from api.errors import documented
from engine.errors import InvalidInput
from engine.voice import MAX_DESCRIPTION, MAX_LANGUAGE, MAX_NAME, MAX_TRANSCRIPT, MAX_WHO
from studio.voices.available_voices import BuiltInSpeaker, ListedVoice, by_name
from studio.voices.voice_maker import TranscriptNeeded, make_voice

ConsentField = Annotated[
    str,
    Form(max_length=MAX_WHO, description="The name of the speaker, who has agreed, or the id of a recorded consent."),
]

router = APIRouter(tags=["voices"])


class Voice(BaseModel):
    """A voice. created_at: seconds since 1970. type: `model` for one built into the loaded model. sample: available
    to all: a sample voice or one built into the model.
    """

    id: str
    object: Literal["audio.voice"] = "audio.voice"
    created_at: int
    name: str
    type: Literal["audio_sample", "model"] = "audio_sample"
    language: str
    description: str
    sample: bool


class CreatedVoice(Voice):
    """A new voice. notes: sentences about what in its clip or transcript may make it sound worse."""

    notes: list[str]


class VoiceNameEntry(BaseModel):
    """A voice, as in the lists of other servers."""

    id: str
    name: str


class VoiceList(BaseModel):
    """The voices, in OpenAI's format (`data`) and that of other servers (`voices`)."""

    object: Literal["list"] = "list"
    data: list[Voice]
    voices: list[VoiceNameEntry]
    has_more: bool = False


class VoiceDeleted(BaseModel):
    """A deleted voice."""

    id: str
    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"
    deleted: bool = True


@router.get("/v1/audio/voices", operation_id="list_voices", responses=documented())
@router.get("/audio/voices", operation_id="list_voices_without_version", responses=documented())
async def list_voices(request: Request) -> VoiceList:
    """List the model's built-in voices, the caller's, then the sample voices; without a key, those available to all."""
    context, owner = context_of(request), caller_of(request).owner
    found = await run_in_threadpool(context.app.voices.list, owner=owner)
    return VoiceList(
        data=[_voice(record, context) for record in found],
        voices=[VoiceNameEntry(id=record.name, name=record.name) for record in by_name(found)],
    )


@router.get("/v1/audio/voices/{voice_id:name}", operation_id="retrieve_voice", responses=documented(404))
async def retrieve_voice(voice_id: str, request: Request) -> Voice:
    """Describe a voice by its id or name."""
    context = context_of(request)
    return _voice(await run_in_threadpool(context.speech.find_voice, caller_of(request), voice_id), context)


@router.post("/v1/audio/voices", operation_id="create_voice", responses=documented(404, 408, 409, 413, 415))
async def create_voice(
    request: Request,
    name: Annotated[str, Form(min_length=1, max_length=4 * MAX_NAME)],
    audio_sample: Annotated[UploadFile, File(description="A clip of the voice, up to 90 s.")],
    consent: ConsentField = "",
    ref_text: Annotated[
        str, Form(max_length=MAX_TRANSCRIPT, description="The words spoken in the clip; needed by most models.")
    ] = "",
    language: Annotated[str, Form(max_length=MAX_LANGUAGE)] = "",
    description: Annotated[str, Form(max_length=MAX_DESCRIPTION)] = "",
) -> CreatedVoice:
    """Create a voice from a clip. A name in use is an error: nothing is overwritten."""
    context, caller = context_of(request), caller_of(request)
    clip = await audio_sample.read()
    about = {"consent": consent, "language": language, "description": description}
    make = partial(make_voice, context.app, name, clip, ref_text, owner=caller.owner, **about)
    try:
        record, notes = await context.jobs.voices.run(caller, make)
    except TranscriptNeeded as error:
        raise InvalidInput(f"ref_text: {error}") from error
    return CreatedVoice(**_voice(record, context).model_dump(), notes=list(map(str, notes)))


@router.delete("/v1/audio/voices/{voice_id:name}", operation_id="delete_voice", responses=documented(403, 404))
async def delete_voice(voice_id: str, request: Request) -> VoiceDeleted:
    """Delete a voice. The page can restore it for ten minutes."""
    speech, caller = context_of(request).speech, caller_of(request)
    return VoiceDeleted(id=(await run_in_threadpool(speech.delete_voice, caller, voice_id)).id)


def _voice(record: ListedVoice, context: ApiContext) -> Voice:
    created = None if isinstance(record, BuiltInSpeaker) else record.created
    return Voice(
        id=record.id,
        created_at=context.started if created is None else int(created.timestamp()),
        type="model" if created is None else "audio_sample",
        name=record.name,
        language=record.language,
        description=record.description,
        sample=record.shared,
    )
