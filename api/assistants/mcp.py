"""Tools for language models over MCP (Model Context Protocol): `speak`, `list_voices` and `clone_voice`.

Over HTTP at `/mcp`, protected by the API's keys. Requests are stateless, so that no session outlives its key.
Over standard input and output for the user of this machine, with the voices of the command line.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import AudioContent, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from api.access import MAX_WITH_AUDIO, caller_of, replay_body
from api.errors import invalid_detail
from api.speech.clips import data_url
from api.speech.create import begin_speech
from api.speech.delivery import collect
from api.speech.request import IN_LOWER_CASE, Instructions, Seed, SpeechRequest, Speed
from engine import __version__
from engine.errors import InvalidText, RepriseError
from engine.files.bounded import MAX_CLIP_FILE_BYTES, read_regular
from engine.voice import MAX_DESCRIPTION, MAX_LANGUAGE, MAX_NAME, MAX_TRANSCRIPT, MAX_WHO
from studio.access import Caller
from studio.speech_service import MAX_CHARACTERS
from studio.user_messages import user_message
from studio.voices.voice_maker import make_voice

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from api.context import ApiContext
    from studio.voices.available_voices import ListedVoice

INSTRUCTIONS = (
    "Speak texts in saved voices, and clone a voice from a clip. Clone a voice only when the user says that its "
    "speaker has agreed, and give that speaker's name as the consent: never assume it."
)
_CHECKED_BY_GATE = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the gate checks hosts and origins
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)


class VoiceInfo(BaseModel):
    """A voice. sample: available to all: a sample voice or one built into the model."""

    id: str
    name: str
    language: str
    description: str
    sample: bool


class CreatedVoiceInfo(VoiceInfo):
    """A new voice. notes: sentences about what in its clip or transcript may make it sound worse."""

    notes: list[str]


class Tools:
    """Tools for language models, executed for the caller of each request."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def list_voices(self, call: Context) -> list[VoiceInfo]:
        """List the voices that `speak` can use: the model's built-in voices, the user's, then the sample voices."""
        async with _tool_errors():
            voices = self._context.app.voices
            return [_voice_info(record) for record in await run_in_threadpool(voices.list, owner=_caller(call).owner)]

    async def speak(
        self,
        call: Context,
        text: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS, description="What to say.")],
        voice: Annotated[str, Field(max_length=200, description="Name or id of a voice.")] = "alloy",
        format: Annotated[
            Literal["mp3", "opus", "aac", "flac", "wav"], IN_LOWER_CASE, Field(description="Format of the audio.")
        ] = "mp3",
        speed: Speed = 1.0,
        instructions: Instructions = "",
        seed: Seed = None,
    ) -> list[AudioContent | TextContent]:
        """Speak a text in a voice and return the audio."""
        async with _tool_errors():
            how = {
                "voice": voice,
                "response_format": format,
                "speed": speed,
                "instructions": instructions,
                "seed": seed,
            }
            asked = SpeechRequest.model_validate({"input": text, **how})
            stream = await begin_speech(self._context, _caller(call), asked, None, as_whole=True)
            audio = base64.b64encode(await collect(self._context, stream)).decode()
            if not stream.usage.frames:  # silence, which an assistant would take for speech
                raise InvalidText("text.no_words")
        summary = f"{stream.usage.seconds:.1f} s of speech in the voice “{voice}”, seed {stream.seed}."
        return [
            AudioContent(type="audio", data=audio, mime_type=stream.media_type),
            TextContent(type="text", text=summary),
        ]

    async def clone_voice(
        self,
        call: Context,
        name: Annotated[str, Field(min_length=1, max_length=4 * MAX_NAME, description="Of the new voice.")],
        clip: Annotated[
            str,
            Field(
                description="A clip of the voice, up to 90 s, as a data URL (data:audio/wav;base64,…); over standard "
                "input and output also the path of a file."
            ),
        ],
        consent: Annotated[
            str,
            Field(
                max_length=MAX_WHO,
                description="The name of the speaker, who has agreed to have this voice cloned, or the id of a "
                "recorded consent. Ask the user; never assume it.",
            ),
        ],
        transcript: Annotated[
            str, Field(max_length=MAX_TRANSCRIPT, description="The words that are spoken in the clip.")
        ] = "",
        language: Annotated[str, Field(max_length=MAX_LANGUAGE)] = "",
        description: Annotated[str, Field(max_length=MAX_DESCRIPTION)] = "",
    ) -> CreatedVoiceInfo:
        """Create and save a voice from a clip whose speaker has agreed. A name in use is an error."""
        app, caller = self._context.app, _caller(call)
        async with _tool_errors():
            sound = await run_in_threadpool(_clip, clip, local=_request(call) is None)
            about = {"consent": consent, "language": language, "description": description}
            make = partial(make_voice, app, name, sound, transcript, owner=caller.owner, **about)
            record, notes = await self._context.jobs.voices.run(caller, make)
            return CreatedVoiceInfo(**_voice_info(record).model_dump(), notes=list(map(str, notes)))


def create_mcp(context: ApiContext) -> MCPServer:
    """Create the MCP server with its tools, for any transport."""
    server = MCPServer("reprise", title="Reprise", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    tools = Tools(context)
    server.tool(annotations=_READS)(tools.list_voices)
    server.tool(annotations=_READS, structured_output=False)(tools.speak)
    server.tool(annotations=_ADDS)(tools.clone_voice)
    return server


class McpResponse(Response):
    """The streamable HTTP response to one request. The call is cancelled when its client disconnects."""

    def __init__(self, server: MCPServer, sent: bytes) -> None:
        """sent: the body of the request."""
        super().__init__()
        self._server, self._sent = server, sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond. Requests share no state, so each has its own session manager."""
        self._server.streamable_http_app(
            stateless_http=True, max_request_body_size=MAX_WITH_AUDIO, transport_security=_CHECKED_BY_GATE
        )
        manager = self._server.session_manager
        async with manager.run():
            await manager.handle_request(scope, replay_body(self._sent, receive), send)


def mcp_endpoint(context: ApiContext) -> Callable[[Request], Awaitable[Response]]:
    """Return the streamable HTTP endpoint, for POST requests."""
    server = create_mcp(context)

    async def mcp(request: Request) -> Response:
        return McpResponse(server, await request.body())  # the package would answer an error while reading with 500

    return mcp


def _request(call: Context) -> Request | None:
    """Return the HTTP request of a call; None over standard input and output."""
    request: Request | None = call.request_context.request
    return request


def _caller(call: Context) -> Caller:
    request = _request(call)
    return Caller() if request is None else caller_of(request)


def _clip(clip: str, *, local: bool) -> bytes:
    """Return the bytes of a clip. local: whether the caller is the user of this machine, who may name a file."""
    if not local or clip.startswith("data:"):
        return data_url(clip, "clip")
    path = Path(clip)
    with suppress(RuntimeError):  # the home folder of an unknown user
        path = path.expanduser()
    return read_regular(path, MAX_CLIP_FILE_BYTES)


def _voice_info(record: ListedVoice) -> VoiceInfo:
    return VoiceInfo(
        id=record.id,
        name=record.name,
        language=record.language,
        description=record.description,
        sample=record.shared,
    )


@asynccontextmanager
async def _tool_errors() -> AsyncIterator[None]:
    """Convert each RepriseError, and the first error of a validation, into a ToolError with its sentence."""
    try:
        yield
    except ValidationError as error:
        raise ToolError(invalid_detail(error.errors()).message) from error
    except RepriseError as error:
        raise ToolError(str(user_message(error))) from error
