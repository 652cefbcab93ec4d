"""Middleware in front of Gradio's login: limits on form size and concurrency, and back-off after wrong passwords."""

from __future__ import annotations

import math
from typing import Any

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.http.request_body import BodyRejected, Disconnected, read_body, replay_body
from web.identity.account_lines import normalize_username
from web.identity.addresses import client_address
from web.limits.throttle import LoginThrottle

MAX_BODY = 10_000  # bytes
MAX_SECONDS = 10.0  # to receive the body
AT_ONCE = 8  # concurrent logins; two are hashed at a time

# Always shown on Gradio's login page, which does not display error responses.
LOGIN_NOTE = "After several wrong passwords, Login does nothing for a while: wait a minute, then try again."
NO_FORM = "A login is a form with one username and one password."
TOO_LARGE = f"A login has at most {MAX_BODY} bytes."
TOO_SLOW = "The login did not arrive in time. Log in again."
BUSY = "Many people are logging in just now. Log in again in a moment."


class LoginMiddleware:
    """ASGI middleware that guards POST …/login. All other requests pass."""

    def __init__(self, app: ASGIApp, throttle: LoginThrottle) -> None:
        self._app, self._throttle = app, throttle
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_login(scope):
            await self._app(scope, receive, send)
            return
        body, problem = await _body(scope, receive)
        account = await _account(scope, body) if problem is None else None
        if problem or account is None:
            answer = problem or _refuse(400, NO_FORM)
            await answer(scope, receive, send)
        elif self._under_way >= AT_ONCE:
            await _refuse(503, BUSY, 2)(scope, receive, send)
        else:
            self._under_way += 1
            try:
                await self._try(account, scope, replay_body(body, receive), send)
            finally:
                self._under_way -= 1

    async def _try(self, account: str, scope: Scope, receive: Receive, send: Send) -> None:
        address = client_address(HTTPConnection(scope))
        wait = math.ceil(self._throttle.begin(account, address))
        if wait:
            sentence = f"There were too many wrong tries. Log in again in {wait} s."
            await _refuse(429, sentence, wait)(scope, receive, send)
            return

        async def watched(message: Message) -> None:
            # After any other response, the attempt still counts as failed.
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._throttle.succeeded(account, address)
            await send(message)

        await self._app(scope, receive, watched)


def _is_login(scope: Scope) -> bool:
    """Return whether this may reach Gradio's login, under any proxy path."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    return str(scope["path"]).rstrip("/").endswith("/login")


async def _body(scope: Scope, receive: Receive) -> tuple[bytes, JSONResponse | None]:
    """Read the request's body. The second value is the error response if it is too large or too slow."""
    try:
        return await read_body(Headers(scope=scope), receive, most=MAX_BODY, seconds=MAX_SECONDS), None
    except Disconnected:
        return b"", _refuse(400, NO_FORM)
    except BodyRejected as rejected:
        return b"", _refuse(rejected.status, TOO_LARGE if rejected.status == 413 else TOO_SLOW)


async def _account(scope: Scope, body: bytes) -> str | None:
    """Return the user name in a login form, None for any other form.

    Parses the form as Gradio does. Repeated fields are rejected, because Gradio could read a different one.
    """
    request = Request({"type": "http", "method": "POST", "headers": scope["headers"]}, replay_body(body, _disconnect))
    try:
        form = await request.form(max_files=0, max_fields=10, max_part_size=MAX_BODY)
    except (MultiPartException, ValueError):
        return None
    names, passwords = form.getlist("username"), form.getlist("password")
    if len(names) != 1 or len(passwords) != 1 or not isinstance(names[0], str):
        return None
    return normalize_username(names[0])


async def _disconnect() -> Message:
    return {"type": "http.disconnect"}


def _refuse(status: int, sentence: str, wait: int | None = None) -> JSONResponse:
    content: dict[str, Any] = {"detail": sentence}
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": str(wait)} if wait else {})
    return JSONResponse(content, status, headers)
