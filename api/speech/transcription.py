"""`POST /v1/audio/transcriptions`: OpenAI's transcription, by the recogniser with which the page transcribes clips."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from api.access import caller_of
from api.context import context_of
from api.errors import ModelNotFound, documented
from engine.audio.decode import LONGEST
from engine.errors import InvalidInput, UnusableReference
from engine.languages import language_tag
from engine.voice import MAX_LANGUAGE

# Names of OpenAI's models, which many clients send to any server. The recogniser is served under them too.
OPENAI_MODELS = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")
NOT_INSTALLED = (
    "This server does not transcribe: install the package with “pip install -r requirements-extra.txt”, or on the page."
)
TOO_LONG = "reference.too_long"  # key of the error, which advises on a clip of a voice

router = APIRouter(tags=["speech"])


class Transcription(BaseModel):
    """The words of a file."""

    text: str


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": Transcription, "content": {"text/plain": {"schema": {"type": "string"}}}},
    **documented(404, 408, 413, 415),
}


@router.post("/v1/audio/transcriptions", operation_id="create_transcription", response_model=None, responses=_RESPONSES)
async def create_transcription(
    request: Request,
    file: Annotated[UploadFile, File(description="Audio of up to 90 s.")],
    model: Annotated[str, Form(max_length=200, description="The recogniser, or one of OpenAI's names.")] = "whisper-1",
    language: Annotated[
        str, Form(max_length=MAX_LANGUAGE, description="Of the words: a tag or an English name; detected by default.")
    ] = "",
    response_format: Annotated[Literal["json", "text"], Form()] = "json",
) -> Transcription | Response:
    """Transcribe a file. Needs faster-whisper, which is optional."""
    context, caller = context_of(request), caller_of(request)
    recogniser = context.app.recognition
    if not recogniser.ready:
        raise ModelNotFound(NOT_INSTALLED)
    if not model.startswith(OPENAI_MODELS) and model != await run_in_threadpool(lambda: recogniser.name):
        raise ModelNotFound(f"“{model}” does not transcribe here; ask for {', '.join(OPENAI_MODELS)}.")
    sound = await file.read()
    try:
        text = await context.jobs.voices.run(caller, recogniser.transcribe, sound, language_tag(language))
    except UnusableReference as error:
        if error.message.key != TOO_LONG:
            raise
        raise InvalidInput(f"file: it is longer than {LONGEST:g} seconds; send it in parts.") from error
    return PlainTextResponse(text) if response_format == "text" else Transcription(text=text)
