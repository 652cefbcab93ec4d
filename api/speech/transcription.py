"""`POST /v1/audio/transcriptions`: OpenAI's transcription, by the recogniser with which the page transcribes clips."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache, partial
from itertools import starmap
from typing import Annotated, Any, Literal

from babel import Locale
from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel, BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from api.access import caller_of
from api.context import context_of
from api.errors import ModelNotFound, documented
from api.speech.create import EVENTS, server_sent_event
from api.speech.request import IN_LOWER_CASE
from api.speech.stream import while_connected
from engine.audio.decode import LONGEST
from engine.audio.transcription import HeardSegment, TranscribedClip
from engine.errors import InvalidInput, UnusableReference
from engine.languages import language_tag
from engine.voice import MAX_LANGUAGE
from studio.recognition import WhisperRecogniser
from studio.script import Cue, to_srt, to_vtt

# Names of OpenAI's models, which many clients send to any server. The recogniser is served under them too.
WHISPER = "whisper-1"
TRANSCRIBERS = (WHISPER, "gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")
MAX_PROMPT = 10_000  # characters; the recogniser reads the last few hundred
NOT_INSTALLED = (
    "This server does not transcribe: install the package with “pip install -r requirements-extra.txt”, or on the page."
)
TOO_LONG = "reference.too_long"  # key of the error, which advises on a clip of a voice
NOT_TIMED = "timestamp_granularities: only “verbose_json” has the times of words; ask for it as the response_format."


def _without_empty(values: Any) -> Any:
    """Return a field's values without empty ones, which count as omitted."""
    return [value for value in values if value != ""] if isinstance(values, list) else values


ResponseFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]
Granularity = Literal["word", "segment"]
Granularities = Annotated[list[Granularity], IN_LOWER_CASE, BeforeValidator(_without_empty)]

router = APIRouter(tags=["speech"])


class Duration(BaseModel):
    """The usage of a transcription. seconds: length of the file."""

    type: Literal["duration"] = "duration"
    seconds: float


class HeardLanguage(BaseModel):
    """The language of a file: the one that was given, or else detected."""

    code: str


class Transcription(BaseModel):
    """The words of a file (`json`)."""

    text: str
    languages: list[HeardLanguage]
    usage: Duration


class TranscribedWord(BaseModel):
    """A word with its times in seconds."""

    word: str
    start: float
    end: float


class TranscribedSegment(BaseModel):
    """A segment, in OpenAI's format. Values are the recogniser's; start and end are seconds."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class VerboseTranscription(BaseModel):
    """The words of a file with their times (`verbose_json`). language: English name. duration: seconds of the file."""

    task: Literal["transcribe"] = "transcribe"
    language: str
    duration: float
    text: str
    segments: list[TranscribedSegment] | None = None
    words: list[TranscribedWord] | None = None
    usage: Duration


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Transcription | VerboseTranscription,
        "content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", EVENTS)},
    },
    **documented(404, 408, 413, 415),
}


@router.post("/v1/audio/transcriptions", operation_id="create_transcription", response_model=None, responses=_RESPONSES)
async def create_transcription(
    request: Request,
    file: Annotated[UploadFile, File(description="Audio of up to 90 s.")],
    granularities: Annotated[
        Granularities,
        Form(
            alias="timestamp_granularities[]",
            default_factory=list,
            description="What `verbose_json` has: `segment` (by default), `word`, or both.",
        ),
    ],
    # Clients write the name of a list with or without brackets. Generated clients cannot have both.
    granularities_without_brackets: Annotated[
        SkipJsonSchema[Granularities], Form(alias="timestamp_granularities", default_factory=list)
    ],
    model: Annotated[str, Form(max_length=200, description="The recogniser, or one of OpenAI's names.")] = WHISPER,
    language: Annotated[
        str, Form(max_length=MAX_LANGUAGE, description="Of the words: a tag or an English name; detected by default.")
    ] = "",
    prompt: Annotated[
        str, Form(max_length=MAX_PROMPT, description="Text before the words, such as names in their spelling.")
    ] = "",
    response_format: Annotated[ResponseFormat, IN_LOWER_CASE, Form()] = "json",
    stream: Annotated[
        bool, Form(description="Send server-sent events, for `json` and `text`; ignored with `whisper-1`.")
    ] = False,
) -> Response:
    """Transcribe a file. Needs faster-whisper, which is optional."""
    context, caller = context_of(request), caller_of(request)
    recogniser = context.app.recognition
    await _check_model(model, recogniser)
    tag = _tag(language)
    asked = {*granularities, *granularities_without_brackets}
    if "word" in asked and response_format != "verbose_json":
        raise InvalidInput(NOT_TIMED)
    sound = await file.read()
    transcribe = partial(recogniser.transcript_of, sound, tag, prompt=prompt, word_times="word" in asked)
    try:
        heard = await while_connected(request.receive, context.jobs.transcriptions.run(caller, transcribe))
    except UnusableReference as error:
        if error.message.key != TOO_LONG:
            raise
        raise InvalidInput(f"file: it is longer than {LONGEST:g} seconds; send it in parts.") from error
    return _response(
        heard, response_format, asked or {"segment"}, as_events=stream and not model.lower().startswith(WHISPER)
    )


async def _check_model(model: str, recogniser: WhisperRecogniser) -> None:
    """Raise ModelNotFound unless there is a recogniser and this is its name, or one of OpenAI's."""
    if not recogniser.ready:
        raise ModelNotFound(NOT_INSTALLED)
    name = model.lower()
    if not name.startswith(TRANSCRIBERS) and name != await run_in_threadpool(lambda: recogniser.name.lower()):
        raise ModelNotFound(f"“{model}” does not transcribe here; ask for {', '.join(TRANSCRIBERS)}.")


def _response(
    heard: TranscribedClip, format: ResponseFormat, parts: Collection[Granularity], *, as_events: bool
) -> Response:
    """Return a transcription in a format. parts: of `verbose_json`. as_events: for `json` and `text`."""
    match format:
        case "verbose_json":
            return _json(_verbose(heard, parts))
        case "srt":
            return PlainTextResponse(to_srt(_cues(heard)))
        case "vtt":
            return PlainTextResponse(to_vtt(_cues(heard)))
        case _ if as_events:
            return Response(b"".join(_events(heard)), headers={"Cache-Control": "no-store"}, media_type=EVENTS)
        case "text":
            return PlainTextResponse(heard.text)
    return _json(Transcription(text=heard.text, languages=[HeardLanguage(code=heard.language)], usage=_usage(heard)))


def _tag(language: str) -> str:
    """Return the code of a language that was given as a tag or a name; "" for none. Raises InvalidInput."""
    given = language.strip().lower()
    tag = language_tag(next((code for code, name in _names().items() if name == given), given))
    if not tag and given not in ("", "auto"):
        raise InvalidInput(f"language: “{language}” is not known; write it as a tag, such as “sv”.")
    return tag


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")


def _usage(heard: TranscribedClip) -> Duration:
    return Duration(seconds=round(heard.duration, 3))


def _verbose(heard: TranscribedClip, asked: Collection[Granularity]) -> VerboseTranscription:
    words = [
        TranscribedWord(word=word.text, start=round(word.start, 3), end=round(word.end, 3)) for word in heard.words
    ]
    return VerboseTranscription(
        language=_names().get(heard.language, heard.language),
        duration=round(heard.duration, 3),
        text=heard.text,
        segments=[*starmap(_segment, enumerate(heard.segments))] if "segment" in asked else None,
        words=words if "word" in asked else None,
        usage=_usage(heard),
    )


def _segment(number: int, segment: HeardSegment) -> TranscribedSegment:
    return TranscribedSegment(
        id=number,
        seek=segment.seek,
        start=round(segment.start, 3),
        end=round(segment.end, 3),
        text=segment.text,
        tokens=list(segment.tokens),
        temperature=segment.temperature,
        avg_logprob=segment.avg_logprob,
        compression_ratio=segment.compression_ratio,
        no_speech_prob=segment.no_speech_prob,
    )


def _cues(heard: TranscribedClip) -> list[Cue]:
    """Return a subtitle for each segment; `-->` would look like the times of a cue."""
    return [Cue(segment.start, segment.end, (segment.text.strip().replace("-->", "→"),)) for segment in heard.segments]


def _events(heard: TranscribedClip) -> Iterator[bytes]:
    """Yield OpenAI's events: a piece of text for each segment, then the whole."""
    for number, segment in enumerate(heard.segments):
        piece = segment.text.strip()
        yield server_sent_event({"type": "transcript.text.delta", "delta": f" {piece}" if number else piece})
    yield server_sent_event({"type": "transcript.text.done", "text": heard.text, "usage": _usage(heard).model_dump()})


@cache
def _names() -> dict[str, str]:
    """Return the English names of languages by their codes, in lower case, as OpenAI's server writes them."""
    names = {"jw": "Javanese", **Locale("en").languages}  # Whisper's code before the standard one
    return {code: name.lower() for code, name in names.items()}
