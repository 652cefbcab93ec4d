"""Cache of static responses, so that files are read and compressed once per process, and sent once to each browser.

Gradio reads and compresses its scripts, about 150 for the page, for every request, and lets browsers ask again for
each of them.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.byte_lru import ByteLRU
from web.ui import modules

LIMIT = 32 << 20  # bytes; the page needs about 2 MB per encoding
# These paths contain content hashes, so all servers of a process can share the cache.
_HASHED = re.compile(rf".*/(assets|{modules.PLACE.strip('/')}/[0-9a-f]{{16}})/[\w./-]+")
_FOR_EVER = "public, max-age=31536000, immutable"
_ENCODINGS = ("br", "gzip")  # in Gradio's order of preference

Sent = tuple[list[tuple[bytes, bytes]], bytes]  # headers and body of a response
_kept: ByteLRU[tuple[str, str], Sent] = ByteLRU(LIMIT)


class StaticCache:
    """ASGI middleware that caches responses, outside the middleware that compresses them."""

    def __init__(self, app: ASGIApp, kept: ByteLRU[tuple[str, str], Sent] = _kept) -> None:
        self._app, self._kept = app, kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond from the cache, or pass the request on and cache the complete response."""
        if scope["type"] != "http" or not _HASHED.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers, send = Headers(scope=scope), _for_ever(send)
        if scope["method"] != "GET" or "range" in headers:
            await self._app(scope, receive, send)
            return
        accepted = headers.get("accept-encoding", "")
        key = (scope["path"], next((name for name in _ENCODINGS if name in accepted), ""))
        kept = self._kept.get(key)
        if kept is None:
            await self._app(scope, receive, self._keeping(key, send))
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(kept[0])})
        await send({"type": "http.response.body", "body": kept[1]})

    def _keeping(self, key: tuple[str, str], send: Send) -> Send:
        start: list[tuple[bytes, bytes]] | None = None
        body = bytearray()

        async def send_and_keep(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] == 200:
                start = list(message["headers"])  # a copy: outer middleware adds headers
            elif start is not None:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    self._keep(key, start, bytes(body))
            await send(message)

        return send_and_keep

    def _keep(self, key: tuple[str, str], start: list[tuple[bytes, bytes]], body: bytes) -> None:
        headers = [(name, value) for name, value in start if name.lower() != b"content-length"]
        if not any(name.lower() == b"set-cookie" for name, _ in headers):
            self._kept.put(key, ([*headers, (b"content-length", str(len(body)).encode())], body), len(body))


def _for_ever(send: Send) -> Send:
    """Let browsers keep the response, unless it fails, sets a cookie or has a Cache-Control of its own."""

    async def send_for_ever(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            headers = MutableHeaders(scope=message)
            if "set-cookie" not in headers:
                headers.setdefault("Cache-Control", _FOR_EVER)
        await send(message)

    return send_for_ever
