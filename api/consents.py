"""`/v1/audio/voice_consents`: recorded consents to voice cloning, in OpenAI's format."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Query, Request, UploadFile
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.access import caller_of
from api.context import context_of
from api.errors import documented
from engine.voice import MAX_LANGUAGE, MAX_NAME
from storage.voices.voice_consents import ConsentRecord
from studio.voices.consents import record_consent

PAGE, LARGEST_PAGE = 20, 100  # consents

router = APIRouter(prefix="/v1/audio/voice_consents", tags=["voices"])


class VoiceConsent(BaseModel):
    """A recorded consent. created_at: seconds since 1970. name: its label. language: a BCP 47 tag."""

    id: str
    object: Literal["audio.voice_consent"] = "audio.voice_consent"
    created_at: int
    name: str
    language: str


class VoiceConsentList(BaseModel):
    """A page of consents, newest first."""

    object: Literal["list"] = "list"
    data: list[VoiceConsent]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


class VoiceConsentName(BaseModel):
    """A new label for a consent."""

    name: str = Field(min_length=1, max_length=4 * MAX_NAME)


class VoiceConsentDeleted(BaseModel):
    """A deleted consent."""

    id: str
    object: Literal["audio.voice_consent"] = "audio.voice_consent"
    deleted: bool = True


@router.get("", operation_id="list_voice_consents", responses=documented(404))
async def list_consents(
    request: Request,
    after: Annotated[str | None, Query(max_length=64, description="The last id of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = PAGE,
) -> VoiceConsentList:
    """List the caller's recorded consents, newest first."""
    consents, owner = context_of(request).app.storage.consents, caller_of(request).owner
    found = await run_in_threadpool(consents.list, owner=owner, after=after)
    data = [_consent(record) for record in found[:limit]]
    ids = [consent.id for consent in data]
    return VoiceConsentList(
        data=data,
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
        has_more=len(found) > limit,
    )


@router.post("", operation_id="create_voice_consent", responses=documented(408, 409, 413, 415))
async def create_consent(
    request: Request,
    name: Annotated[str, Form(min_length=1, max_length=4 * MAX_NAME, description="A label: who agrees.")],
    language: Annotated[str, Form(min_length=1, max_length=MAX_LANGUAGE, description="A BCP 47 tag, such as en-US.")],
    recording: Annotated[UploadFile, File(description="The speaker agreeing, up to 90 s.")],
) -> VoiceConsent:
    """Store a recording of a speaker's consent. Its id serves as the consent for new voices."""
    context, caller, sound = context_of(request), caller_of(request), await recording.read()
    record = partial(record_consent, context.app.storage, name, language, sound, owner=caller.owner)
    return _consent(await context.jobs.clips.run(caller, record))


@router.get("/{consent_id}", operation_id="retrieve_voice_consent", responses=documented(404))
async def retrieve_consent(consent_id: str, request: Request) -> VoiceConsent:
    """Describe a consent."""
    consents = context_of(request).app.storage.consents
    return _consent(await run_in_threadpool(consents.get, consent_id, owner=caller_of(request).owner))


@router.post("/{consent_id}", operation_id="update_voice_consent", responses=documented(404, 408, 413, 415))
async def update_consent(consent_id: str, changed: VoiceConsentName, request: Request) -> VoiceConsent:
    """Rename a consent. Voices made with it keep the old label."""
    consents = context_of(request).app.storage.consents
    return _consent(await run_in_threadpool(consents.rename, consent_id, changed.name, owner=caller_of(request).owner))


@router.delete("/{consent_id}", operation_id="delete_voice_consent", responses=documented(404))
async def delete_consent(consent_id: str, request: Request) -> VoiceConsentDeleted:
    """Delete a consent with its recording. Voices made with it remain."""
    consents = context_of(request).app.storage.consents
    await run_in_threadpool(consents.delete, consent_id, owner=caller_of(request).owner)
    return VoiceConsentDeleted(id=consent_id)


def _consent(record: ConsentRecord) -> VoiceConsent:
    return VoiceConsent(
        id=record.id, created_at=int(record.created.timestamp()), name=record.name, language=record.language
    )
