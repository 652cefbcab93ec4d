"""`POST /v1/audio/speech/batch`: several speeches in one response, with an error for each that fails."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.access import caller_of
from api.context import ApiContext, context_of
from api.errors import ErrorDetail, detail_of, documented, invalid_detail
from api.speech.create import begin_speech, clip_of
from api.speech.delivery import collect
from api.speech.request import SpeechRequest, inline_schema, with_changes, without_nulls
from api.speech.stream import SpokenWord, while_connected
from studio.access import Caller

MAX_ITEMS = 32
AT_ONCE = 4  # speeches of one batch

router = APIRouter(tags=["speech"])


class BatchRequest(BaseModel):
    """Up to 32 speeches. All other fields, as for a single speech, are defaults for the items."""

    model_config = ConfigDict(extra="allow")

    items: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=MAX_ITEMS,
        description="Requests as for a single speech; `input` at least.",
        json_schema_extra={"items": inline_schema(SpeechRequest)},
    )


class ItemUsage(BaseModel):
    """Usage of a speech."""

    characters: int
    frames: int
    seconds: float


class BatchResult(BaseModel):
    """One speech: its audio as base64, or its error."""

    index: int
    status: Literal["success", "error"]
    audio_data: str | None = None
    media_type: str | None = None
    seed: int | None = None
    usage: ItemUsage | None = None
    words: list[SpokenWord] | None = None
    error: ErrorDetail | None = None


class BatchResponse(BaseModel):
    """The results, in the order of the items."""

    results: list[BatchResult]
    total: int
    succeeded: int
    failed: int


@router.post("/v1/audio/speech/batch", operation_id="create_speech_batch", responses=documented(408, 413, 415))
async def create_batch(asked: BatchRequest, request: Request) -> BatchResponse:
    """Speak several texts. The response is always 200: each result has its own error."""
    context, caller, places = context_of(request), caller_of(request), asyncio.Semaphore(AT_ONCE)
    common = without_nulls(asked.model_extra or {})

    async def result(index: int, item: dict[str, Any]) -> BatchResult:
        async with places:
            return await _result(context, caller, index, with_changes(common, without_nulls(item)))

    async def all_results() -> list[BatchResult]:
        return await asyncio.gather(*(result(index, item) for index, item in enumerate(asked.items)))

    results = await while_connected(request.receive, all_results())
    good = sum(each.status == "success" for each in results)
    return BatchResponse(results=results, total=len(results), succeeded=good, failed=len(results) - good)


async def _result(context: ApiContext, caller: Caller, index: int, values: dict[str, Any]) -> BatchResult:
    try:
        asked = SpeechRequest.model_validate(values)
        stream = await begin_speech(context, caller, asked, await clip_of(context, asked), as_whole=True)
        words: list[SpokenWord] = []
        data = await collect(context, stream, words)
    except ValidationError as error:
        return BatchResult(index=index, status="error", error=invalid_detail(error.errors()))
    except Exception as error:
        return BatchResult(index=index, status="error", error=detail_of(error))
    usage = stream.usage
    return BatchResult(
        index=index,
        status="success",
        audio_data=base64.b64encode(data).decode(),
        media_type=stream.media_type,
        seed=stream.seed,
        words=words if asked.timestamp_granularities else None,
        usage=ItemUsage(characters=usage.characters, frames=usage.frames, seconds=round(usage.seconds, 3)),
    )
