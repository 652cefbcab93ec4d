"""How requests are refused: a sentence, as a line of text for people and as JSON for the page's scripts."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response


def refusal(status: int, sentence: str, headers: Headers, more: Mapping[str, str] | None = None) -> Response:
    """An answer without anything but the sentence. `headers`: of the request; `more`: for the answer."""
    extra = {"Cache-Control": "no-store", **(more or {})}
    if "text/html" in headers.get("accept", ""):
        return PlainTextResponse(sentence, status, extra)
    return JSONResponse({"detail": sentence, "error": sentence}, status, extra)  # Gradio's client shows `error`


def wait_a_moment(status: int, sentence: str, headers: Headers, seconds: float) -> Response:
    """A refusal that says when to try again."""
    return refusal(status, sentence, headers, {"Retry-After": str(max(1, round(seconds)))})
