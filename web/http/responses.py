"""Error responses: one sentence, as plain text for people or as JSON for scripts."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response


def error_response(status: int, sentence: str, headers: Headers, more: Mapping[str, str] | None = None) -> Response:
    """Return a response with one sentence. headers: the request's. more: further response headers."""
    extra = {"Cache-Control": "no-store", **(more or {})}
    if "text/html" in headers.get("accept", ""):
        return PlainTextResponse(sentence, status, extra)
    return JSONResponse({"detail": sentence, "error": sentence}, status, extra)  # Gradio's client shows `error`
