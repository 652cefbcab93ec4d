"""The calls of one page: whether a body is one that it sends, and whether a session is one that it has."""

from __future__ import annotations

import json
from collections.abc import Callable

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Scope

from web.http.bodies import Calls

_STREAM = "/queue/data"
_NO_SESSION = {
    "msg": "unexpected_error",
    "event_id": None,
    "message": "404: Not Found",
    "session_not_found": True,
    "success": False,
}


class PageCalls:
    """What the gate asks about a call before Gradio sees it."""

    def __init__(self, calls: Calls, has_session: Callable[[str], bool]) -> None:
        """`has_session`: whether something of this session is queued, or was and has not been told yet."""
        self._calls, self._has_session = calls, has_session

    def check(self, path: str, body: bytes) -> None:
        """Raises CallRefused for a body that the page does not send."""
        self._calls.check(path, body)

    def without_session(self, scope: Scope) -> Response | None:
        """What Gradio tells a page whose session it does not know any more, before it ends with a traceback."""
        if not scope["path"].endswith(_STREAM):
            return None
        if self._has_session(QueryParams(scope["query_string"]).get("session_hash", "")):
            return None
        return Response(f"data: {json.dumps(_NO_SESSION)}\n\n", media_type="text/event-stream")
