"""Named endpoints for `gradio_client`: `/speak` and `/list_voices`, at `/v1/gradio`, protected by the API's keys.

Gradio serves them as a separate application without a page. Only the routes that its client uses respond. Audio is
returned as a data URL, since every caller could read a file in Gradio's cache.

Gradio does not notify an endpoint when its call is cancelled or its client disconnects, so `_EndpointFilter` handles
both: the call's speech ends within one frame, and its event then ends normally.

Imported at the first request, after Gradio itself: `web.serve` sets the folder of its files first.
"""

import asyncio
import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from gradio.context import LocalContext
from gradio.events import api
from gradio.routes import App
from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    ValidationError,
)
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access import caller_of, replay_body
from api.errors import invalid_detail
from api.speech.create import begin_speech
from api.speech.delivery import collect
from api.speech.request import Body, SpeechRequest
from api.speech.stream import EncodedSpeech, disconnected
from engine.errors import RepriseError
from studio.access import Caller
from studio.user_messages import user_message

if TYPE_CHECKING:
    from api.context import ApiContext

MAX_WAITING = 100  # calls
SessionHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-z-]{1,40}$")]
EVENTS, CANCEL = "/gradio_api/queue/data", "/gradio_api/cancel"
_ROUTES = re.compile(rf"GET /config|GET /gradio_api/info|GET {EVENTS}|POST /gradio_api/queue/join|POST {CANCEL}")


def create_endpoints(context: "ApiContext") -> ASGIApp:
    """Create the endpoints' application. Call it in the event loop that serves the application."""
    calls = _RunningCalls()

    async def speak(
        text: str, request: gr.Request, voice: str = "alloy", format: str = "mp3", speed: float = 1.0, seed: int = -1
    ) -> str:
        """Speak a text in a voice; returns the audio as a data URL.

        Args:
            text: What to say, up to 10,000 characters.
            voice: Name or id of a voice.
            format: mp3, opus, aac, flac or wav.
            speed: 0.25 to 4; the pitch stays.
            seed: Equal seeds give equal speech; -1 for any.
        """
        call = calls.begin(LocalContext.event_id.get() or "", request.session_hash or "")
        try:
            how = {"voice": voice, "response_format": format, "speed": speed, "seed": None if seed == -1 else seed}
            asked = SpeechRequest.model_validate({"input": text, **how})
            stream = await begin_speech(context, _caller(request), asked, None, as_whole=True)
            call.follow(stream)
            audio = await collect(context, stream)
        except ValidationError as error:
            raise gr.Error(invalid_detail(error.errors()).message, print_exception=False) from error
        except RepriseError as error:
            raise _to_gradio_error(error) from error
        finally:
            calls.end(call)
        if call.stopped:
            raise gr.Error("The call was cancelled.", print_exception=False)
        return f"data:{stream.media_type};base64,{base64.b64encode(audio).decode()}"

    async def list_voices(request: gr.Request) -> list[dict[str, str]]:
        """List the built-in voices, the caller's, then the sample voices: id, name, language and description."""
        voices, owner = context.app.voices, _caller(request).owner
        try:
            found = await run_in_threadpool(voices.list, owner=owner)
        except RepriseError as error:
            raise _to_gradio_error(error) from error
        return [{name: getattr(record, name) for name in ("id", "name", "language", "description")} for record in found]

    with gr.Blocks(analytics_enabled=False) as endpoints:
        # The engine has its own queue.
        api(speak, api_name="speak", concurrency_limit=None)
        api(list_voices, api_name="list_voices", concurrency_limit=None)
    endpoints.queue(max_size=MAX_WAITING)
    app = App.create_app(endpoints)
    endpoints.run_startup_events()
    return _EndpointFilter(app, [len(each.inputs) for each in endpoints.fns.values()], calls)


@dataclass(eq=False)
class _RunningCall:
    """A running call of `/speak`. event, session: ids of Gradio's client. stopped: the result is no longer needed."""

    event: str
    session: str
    stopped: bool = False
    stream: EncodedSpeech | None = None

    def follow(self, stream: EncodedSpeech) -> None:
        self.stream = stream
        if self.stopped:
            self.stop()

    def stop(self) -> None:
        self.stopped = True
        if self.stream is not None:
            self.stream.gone = True
            self.stream.close()


class _RunningCalls:
    """The running calls of `/speak`. Use it in the event loop's thread only."""

    def __init__(self) -> None:
        self._calls: set[_RunningCall] = set()

    def begin(self, event: str, session: str) -> _RunningCall:
        call = _RunningCall(event, session)
        self._calls.add(call)
        return call

    def end(self, call: _RunningCall) -> None:
        self._calls.discard(call)

    def stop(self, session: str, event: str | None = None) -> None:
        """Stop a session's calls, or only the one of `event`."""
        for call in list(self._calls):
            if call.session == session and event in (None, call.event):
                call.stop()


class _Call(BaseModel):
    """The body of a call as `gradio_client` sends it. Gradio does not fail cleanly on other bodies."""

    model_config = ConfigDict(extra="forbid")

    fn_index: Annotated[int, Field(ge=0)]
    session_hash: SessionHash
    data: list[StrictStr | StrictInt | Annotated[StrictFloat, AllowInfNan(False)]]
    event_data: None = None
    trigger_id: None = None


class _Cancelled(BaseModel):
    """The body of a cancellation by `gradio_client`. event_id: None if the client does not know it yet."""

    model_config = ConfigDict(extra="forbid")

    fn_index: Annotated[int, Field(ge=0)]
    session_hash: SessionHash
    event_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None


class _EndpointFilter:
    """ASGI filter for the requests that `gradio_client` sends. inputs: the number of inputs of each endpoint."""

    def __init__(self, app: ASGIApp, inputs: list[int], calls: _RunningCalls) -> None:
        self._app, self._inputs, self._calls = app, inputs, calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or not _ROUTES.fullmatch(f"{scope['method']} {path}"):
            raise HTTPException(404, "There is nothing here.")
        if scope["method"] == "POST":
            body = await Request(scope, receive).body()
            if path == CANCEL:
                await self._cancel(body)(scope, receive, send)
                return
            self._check(body)
            receive = replay_body(body, receive)
        if path == EVENTS:
            await self._send_events(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _send_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the events of a session, and stop its calls when its client disconnects."""
        session = Request(scope).query_params.get("session_hash", "")
        left = asyncio.create_task(disconnected(receive))

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                self._calls.stop(session)

        async def receive_disconnect() -> Message:
            await asyncio.shield(left)
            return {"type": "http.disconnect"}

        left.add_done_callback(ended)

        try:
            await self._app(scope, receive_disconnect, send)
        finally:
            left.cancel()

    def _cancel(self, body: bytes) -> JSONResponse:
        """Stop a call. Raises HTTPException for an invalid body."""
        asked = _parsed(_Cancelled, body)
        if asked.event_id is not None:
            self._calls.stop(asked.session_hash, asked.event_id)
        return JSONResponse({"success": True})

    def _check(self, body: bytes) -> None:
        """Raise HTTPException unless the body is a call of an endpoint."""
        call = _parsed(_Call, body)
        if call.fn_index >= len(self._inputs) or len(call.data) != self._inputs[call.fn_index]:
            raise HTTPException(400, "There is no such endpoint, or it takes other inputs; see view_api().")


def _parsed(model: type[Body], body: bytes) -> Body:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise HTTPException(400, invalid_detail(error.errors()).message) from error


def _caller(request: gr.Request) -> Caller:
    assert request.request is not None, "calls come over HTTP"
    return caller_of(request.request)


def _to_gradio_error(error: RepriseError) -> Any:
    return gr.Error(str(user_message(error)), print_exception=False)
