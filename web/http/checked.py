"""Calls are checked before Gradio sees them, and refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable

from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.http.bodies import CallRefused, Calls

MAX_BODY = 1_000_000  # bytes
API = "/gradio_api/"
NO_SESSION = {
    "msg": "unexpected_error",
    "event_id": None,
    "message": "404: Not Found",
    "session_not_found": True,
    "success": False,
}


class CheckedCalls:
    """ASGI middleware. Every POST to Gradio's API but uploads is a call, and has to be one that the page makes."""

    def __init__(self, app: ASGIApp, calls: Calls, has_session: Callable[[str], bool]) -> None:
        """`has_session`: whether something of this session is queued, or was and has not been told yet."""
        self._app, self._calls, self._has_session = app, calls, has_session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what is fit to be, and answers the rest."""
        path = scope.get("path", "")
        answer: Response | None = None
        if scope["type"] == "http" and API in path:
            if scope["method"] == "POST" and not path.rstrip("/").endswith(API + "upload"):
                receive, answer = await self._checked(path, receive)
            elif path.endswith(API + "queue/data"):
                answer = self._without_session(scope)
        await (answer or self._app)(scope, receive, send)

    async def _checked(self, path: str, receive: Receive) -> tuple[Receive, Response | None]:
        """What hands the body out again, and the answer to one that is refused."""
        try:
            body = await _read(receive)
            self._calls.check(path, body)
        except CallRefused as error:  # Gradio's client shows `error`
            content = {"error": str(error), "detail": str(error)}
            return receive, JSONResponse(content, error.status, {"Cache-Control": "no-store"})
        return _replayed(body, receive), None

    def _without_session(self, scope: Scope) -> Response | None:
        """What Gradio tells a page that it does not know any more, and then ends with a traceback."""
        if self._has_session(QueryParams(scope["query_string"]).get("session_hash", "")):
            return None
        return Response(f"data: {json.dumps(NO_SESSION)}\n\n", media_type="text/event-stream")


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise CallRefused(413, f"The request is too large: at most {MAX_BODY // 1000:,} kB go in one. Send less.")
        if not message.get("more_body", False):  # all of it, or the client is gone
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
