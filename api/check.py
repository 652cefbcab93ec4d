"""`POST /v1/audio/check`: whether a file was made with Reprise."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, File, Request, UploadFile
from pydantic import BaseModel

from api.access import caller_of
from api.context import context_of
from api.errors import documented
from studio.provenance.provenance import check_file

router = APIRouter(tags=["speech"])


class CheckedAudio(BaseModel):
    """The origin of a file. tagged: whether its tags say that Reprise made it; the fields up to `made` are from them.

    voices: ids, or `model:NAME` for the model's own. made: the date, as YYYY-MM-DD. watermark: a Perth watermark, of
    Reprise or another program, in the first half minute; `unknown` if this server cannot detect it.
    """

    tagged: bool
    models: list[str] = []
    voices: list[str] = []
    seeds: list[int] = []
    made: str | None = None
    watermark: Literal["found", "missing", "unknown"]


@router.post("/v1/audio/check", operation_id="check_audio", responses=documented(408, 413, 415))
async def check_audio(
    request: Request, file: Annotated[UploadFile, File(description="An audio file.")]
) -> CheckedAudio:
    """Report whether a file's tags say that Reprise made it, and whether it carries the watermark."""
    checked = await context_of(request).jobs.checks.run(caller_of(request), partial(check_file, await file.read()))
    provenance = checked.provenance
    if provenance is None:
        return CheckedAudio(tagged=False, watermark=checked.watermark)
    return CheckedAudio(
        tagged=True,
        models=list(provenance.models),
        voices=list(provenance.voices),
        seeds=list(provenance.seeds),
        made=provenance.made.isoformat() if provenance.made else None,
        watermark=checked.watermark,
    )
