"""Speech requests: OpenAI's fields with the extensions of open-model servers, and how bodies are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from api.access import MAX_WITH_AUDIO
from api.errors import content_type
from api.speech.delivery import AudioOutput
from engine.audio.output.mastering import LOUDEST, SOFTEST
from engine.audio.output.stream import FASTEST, HIGHEST_RATE, LOWEST_RATE, SLOWEST, StreamFormat
from engine.options import MAX_SEED
from engine.voice import MAX_TRANSCRIPT
from studio.speech_service import MAX_CHARACTERS

Body = TypeVar("Body", bound=BaseModel)

PCM_RATE = 24_000  # Hz, as OpenAI sends them: raw samples have no header to state it


def _voice_name(voice: Any) -> Any:
    """Return a voice's name from OpenAI's two forms: a string, or an object with an id, such as an entry of a list."""
    return voice["id"] if isinstance(voice, dict) and "id" in voice else voice


_VOICE_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": 200},
        {
            "type": "object",
            "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 200}},
            "required": ["id"],
        },
    ],
    "description": "Name or id of a saved voice, a name of OpenAI's voices, or an object with one of them as `id`.",
}
VoiceSelector = Annotated[
    str, Field(min_length=1, max_length=200), BeforeValidator(_voice_name), WithJsonSchema(_VOICE_SCHEMA)
]


def _as_list(value: Any) -> Any:
    """Wrap a single string, as forms send it, in a list."""
    return [value] if isinstance(value, str) else value


def _lower_case(value: Any) -> Any:
    """Return a choice, or a list of them, in lower case."""
    if isinstance(value, list):
        return [_lower_case(each) for each in value]
    return value.lower() if isinstance(value, str) else value


IN_LOWER_CASE = BeforeValidator(_lower_case)  # for choices, since some clients write “MP3”
AudioFormat = Annotated[StreamFormat, IN_LOWER_CASE]
Speed = Annotated[
    float, Field(ge=SLOWEST, le=FASTEST, allow_inf_nan=False, description="Playback speed; the pitch is preserved.")
]
Instructions = Annotated[
    str,
    Field(
        max_length=4_096,  # as in OpenAI's API
        description="Style, direction for a named speaker, or description of the voice, if the model supports it.",
    ),
]
Seed = Annotated[int | None, Field(ge=0, le=MAX_SEED, description="Equal seeds give equal speech.")]


class SpeechRequest(BaseModel):
    """The text and how to speak it. Other servers' fields without an equivalent here are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field("tts-1", max_length=200, description="The loaded model, or one of OpenAI's names for it.")
    input: str = Field(min_length=1, max_length=MAX_CHARACTERS, description="The text.")
    voice: VoiceSelector | None = Field(
        None,
        description="Required unless `ref_audio` is given or the model speaks voices described in `instructions`.",
    )
    response_format: AudioFormat = "mp3"
    speed: Speed = 1.0
    instructions: Instructions = ""
    stream_format: Annotated[Literal["audio", "sse"], IN_LOWER_CASE] = "audio"
    stream: bool = Field(
        True, description="False: the response begins once all audio is generated; its headers contain the usage."
    )
    seed: Seed = None
    ref_audio: str | None = Field(
        None,
        description="A clip of the voice, as a data URL (`data:audio/wav;base64,…`), or uploaded in a form. An https "
        "address only at hosts that this server allows by name.",
    )
    ref_text: str = Field("", max_length=MAX_TRANSCRIPT, description="The words spoken in `ref_audio`.")
    language: str = Field("", max_length=40, description="Refused where the model does not speak it.")
    max_new_tokens: int | None = Field(None, ge=1, le=1_000_000, description="Maximum number of frames.")
    sample_rate: int | None = Field(
        None, ge=LOWEST_RATE, le=HIGHEST_RATE, description="Hz. Default: 24,000 for pcm, else the model's own."
    )
    lufs: float | None = Field(
        None,
        ge=SOFTEST,
        le=LOUDEST,
        allow_inf_nan=False,
        description="Loudness of the whole according to EBU R 128, such as -16, -20 or -23; with `stream` false, and "
        "in batches.",
    )
    timestamp_granularities: Annotated[list[Literal["word"]], IN_LOWER_CASE, BeforeValidator(_as_list)] = Field(
        default=[],
        max_length=1,
        description="`word`: return word times, in server-sent events and in batches; refused if the model has none.",
    )

    @property
    def output(self) -> AudioOutput:
        """The requested audio."""
        rate = self.sample_rate or (PCM_RATE if self.response_format == "pcm" else None)
        return AudioOutput(self.response_format, rate, self.speed, self.lufs)


async def read_speech_request(request: Request) -> tuple[SpeechRequest, bytes | None]:
    """Return the request in a body, JSON or a form, and the clip uploaded in a form.

    Raises RequestValidationError, HTTPException.
    """
    clip: bytes | None = None
    if content_type(request) == "multipart/form-data":
        async with request.form(max_files=1, max_fields=20, max_part_size=MAX_WITH_AUDIO) as form:
            # Clients write the name of a list with or without brackets, and send fields that are not filled in.
            texts = {name.removesuffix("[]"): value for name, value in form.items() if isinstance(value, str)}
            values: Any = {name: value for name, value in texts.items() if value}
            upload = form.get("ref_audio")
            clip = await upload.read() if isinstance(upload, UploadFile) else None
    else:
        values = await read_body(request, {"application/json": json.loads}, or_else="multipart/form-data")
    return validated(SpeechRequest, values), clip


async def read_body(request: Request, readers: Mapping[str, Callable[[bytes], Any]], *, or_else: str = "") -> Any:
    """Parse a body. readers: by content type; the first is the default; JSON has further types that end in `+json`.

    or_else: a type handled elsewhere, for errors.

    Raises HTTPException.
    """
    kind = content_type(request)
    read = readers.get("application/json" if kind.endswith("+json") else kind) if kind else next(iter(readers.values()))
    if read is None:
        raise HTTPException(415, f"Send the request as {' or '.join(filter(None, [*readers, or_else]))}.")
    body = await request.body()
    try:
        return read(body)
    except Exception as error:  # MessagePack's errors have no common class
        name = "MessagePack" if "msgpack" in kind else "JSON"
        raise HTTPException(400, f"The body is not {name}.") from error


def validated(model: type[Body], values: Any) -> Body:
    """Validate the content of a body. Raises RequestValidationError, as FastAPI does."""
    try:
        return model.model_validate(without_nulls(values))
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from error


def inline_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a body that an operation reads itself, without references to other schemas."""
    schema = model.model_json_schema()
    found = schema.pop("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, dict):
            if name := str(part.get("$ref", "")).rpartition("/")[2]:
                return resolved(found[name])
            return {key: resolved(value) for key, value in part.items()}
        return [resolved(each) for each in part] if isinstance(part, list) else part

    return dict(resolved(schema))


def without_nulls(values: Any) -> Any:
    """Drop null values: clients with typed requests send null for omitted fields."""
    return {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else values


class OptionalNulls(BaseModel):
    """An object in a request whose null fields count as omitted."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        return without_nulls(values)


def with_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with those that replace them. A voice replaces a clip, and a clip a voice."""
    replaced = {"voice", "ref_audio", "ref_text"} if {"voice", "ref_audio"} & changes.keys() else set()
    return {name: value for name, value in values.items() if name not in replaced} | changes
