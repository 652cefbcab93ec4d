"""`X-Request-Id`: the id of each response, which OpenAI's clients tell in their errors and logs."""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-Id"
STATE = "request_id"  # key in a request's state, which web/limits/connections.py reads
_VALID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestIdMiddleware:
    """Middleware that adds the id. A valid one in the request is kept, so that a proxy's logs have the same."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request and add an id to its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        known = given if _VALID.fullmatch(given) else f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {})[STATE] = known

        async def identified(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = known
            await send(message)

        await self._app(scope, receive, identified)
