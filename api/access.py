"""The API's access middleware. It checks the caller's key and rate limit, and bounds the size of the body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import content_type, refusal, response_to
from engine.errors import RepriseError
from studio.access import Access, Caller, KeyRefused

CALLER = "caller"  # key in a request's state
MAX_JSON = 1 << 20  # bytes of a body
MAX_WITH_AUDIO = 32 << 20  # a clip of 90 s, 48 kHz, two channels, as base64
# Signs before values in a body that is no form: parsed values need up to 30 times the memory of their bytes, and the
# event loop waits for the parser. Longer texts than the limits allow have fewer.
MAX_VALUES = 500_000
BODY_TIMEOUT = 30.0  # seconds without a byte of a body
_OPEN = ("/health", "/health/live", "/health/ready", "/v1/openapi.json")
# Some clients list voices or models without a key. The list then contains only public entries.
_LISTS = ("/v1/audio/voices", "/audio/voices", "/v1/audio/models")
_WITH_AUDIO = ("/v1/audio/", "/v1/tts", "/v1/references", "/mcp")
_BINARY = ("multipart/form-data", "application/msgpack", "application/x-msgpack")
_COMPRESSIONS = ("gzip", "x-gzip", "deflate", "br", "zstd", "compress")  # other values are mistaken for a charset
GUEST = Caller("guest")  # owns nothing

IsLocal = Callable[[Scope], bool]


def caller_of(connection: HTTPConnection) -> Caller:
    """Return the caller that sent a request."""
    caller: Caller = connection.scope["state"][CALLER]
    return caller


def with_security(document: dict[str, Any]) -> dict[str, Any]:
    """Describe in an OpenAPI document which operations need a key: all but the public ones."""
    document["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key, once the server has one."}
    }
    document["security"] = [{"key": []}]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path in _OPEN:
                operation["security"] = []
            elif path in _LISTS and method == "get":
                operation["security"] = [{"key": []}, {}]
    return document


class AccessMiddleware:
    """Middleware that passes on permitted requests and refuses others with 401, 413, 415 or 429."""

    def __init__(self, app: ASGIApp, access: Access, is_local: IsLocal) -> None:
        """is_local: whether a request came from a program on this machine, not from another site's page."""
        self._app, self._access, self._is_local = app, access, is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request with its caller in the state, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            caller = await self._admit(scope, headers)
        except RepriseError as error:
            await _refuse(response_to(error), scope, receive, send)
            return
        codings = headers.get("content-encoding", "").lower().split(",")
        if any(coding.strip() in _COMPRESSIONS for coding in codings):
            message = "The request is compressed, which is not supported: send it without Content-Encoding."
            await _refuse(refusal(415, message, {"Accept-Encoding": "identity"}), scope, receive, send)
            return  # decompressed, a small body could be larger than the limit
        most = MAX_WITH_AUDIO if scope["path"].startswith(_WITH_AUDIO) else MAX_JSON
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > most:
            await _refuse(refusal(413, _too_large(most)), scope, receive, send)
            return
        scope["state"] = {**scope.get("state", {}), CALLER: caller}
        if scope["type"] == "http":
            receive = _bounded(receive, most, count=content_type(HTTPConnection(scope)) not in _BINARY)
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, headers: Headers) -> Caller:
        path = scope["path"]
        if path in _OPEN:
            return GUEST
        scheme, _, key = headers.get("authorization", "").partition(" ")
        key = key.strip() if scheme.lower() == "bearer" else ""
        try:
            caller = await run_in_threadpool(self._access.admit, key or None, local=self._is_local(scope))
        except KeyRefused:
            if not key and path in _LISTS and scope.get("method") == "GET":
                return GUEST
            raise
        self._access.count_request(caller)
        return caller


async def _refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response. A WebSocket is closed before it is accepted, with the response if the server supports it."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    if "expect" in Headers(scope=scope):
        response.headers["Connection"] = "close"  # no body follows, for which the next request would be taken
    await response(scope, receive, send)


def values_in(text: str | bytes) -> int:
    """Return at least the number of values in JSON."""
    return sum(map(text.count, "[{,")) if isinstance(text, str) else sum(map(text.count, b"[{,"))


def _bounded(receive: Receive, most: int, *, count: bool) -> Receive:
    """Return a `receive` that raises HTTPException if the body is too large or stops arriving.

    most: bytes. count: whether the body's values are limited, too.
    """
    size, values, complete = 0, 0, False

    async def bounded() -> Message:
        nonlocal size, values, complete
        if complete:
            return await receive()
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408, "The request stopped coming. Send it again.") from error
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, _too_large(most))
        values += values_in(message.get("body", b"")) if count else 0
        if values > MAX_VALUES:
            raise HTTPException(413, f"The request has more than {MAX_VALUES:,} values. Send less.")
        complete = not message.get("more_body", False)
        return message

    return bounded


def _too_large(most: int) -> str:
    return f"The request is larger than {most >> 20} MB. Send less."


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that starts with a body that was already read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
