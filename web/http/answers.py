"""Compresses the answers to the page's events, which may have lists of thousands of voices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.middleware.gzip import GZipMiddleware

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_EVENTS = "/gradio_api/run/"
_MINIMUM = 16 << 10  # bytes
_LEVEL = 1  # gzip level: compresses 1.7 MB to 0.5 MB in 40 ms; others are hardly smaller


class CompressedAnswers:
    """Compresses long answers to events that have one answer; others are streams."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(app, minimum_size=_MINIMUM, compresslevel=_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass requests on."""
        is_event = scope["type"] == "http" and _EVENTS in scope["path"]
        await (self._compressing if is_event else self._app)(scope, receive, send)
