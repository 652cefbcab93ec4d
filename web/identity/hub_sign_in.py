"""Signing in with Hugging Face where it does not succeed: Gradio's routes then raise, and respond with status 500."""

from __future__ import annotations

import logging

from starlette.datastructures import Headers, QueryParams
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.http.responses import error_response

FAILED = "Signing in with Hugging Face failed. Open the page again, and sign in once more."
_NO_STORE = {"Cache-Control": "no-store"}
log = logging.getLogger(__name__)


async def answer_sign_in(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass on a request of signing in. A visitor who cancelled gets the page, and after a failure one sentence."""
    if QueryParams(scope["query_string"]).get("error") == "access_denied":
        await RedirectResponse("../", 303, _NO_STORE)(scope, receive, send)
        return
    failed = False

    async def send_unless_failed(message: Message) -> None:
        nonlocal failed
        failed = failed or (message["type"] == "http.response.start" and message["status"] >= 500)
        if not failed:
            await send(message)

    try:
        await app(scope, receive, send_unless_failed)
    except Exception as error:
        if not failed:  # the response has begun
            raise
        log.warning("%s (Got: %s: %s)", FAILED, type(error).__name__, error)
    if failed:
        await error_response(502, FAILED, Headers(scope=scope))(scope, receive, send)
