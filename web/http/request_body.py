"""Reading request bodies, with size and time limits."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from studio.script.formats.decode import MAX_CHARACTERS

MAX_BODY = 4 * MAX_CHARACTERS + 100_000  # bytes: the longest text of any language, and the rest of a call
BODY_SECONDS = 30.0


class BodyRejected(Exception):
    """Raised for a body beyond the limits. status: HTTP status of the response."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Disconnected(Exception):
    """The client disconnected before the body was complete."""


async def read_body(headers: Headers, receive: Receive, *, most: int = MAX_BODY, seconds: float | None = None) -> bytes:
    """Read the whole body within `seconds`, BODY_SECONDS by default. Raises BodyRejected, Disconnected."""
    declared = headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_SECONDS if seconds is None else seconds):
            return await _read(receive, most)
    except TimeoutError as error:
        raise BodyRejected(408, "The request took too long to arrive. Send it again.") from error


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns a body that was already read, then any later messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


async def _read(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large(most: int) -> BodyRejected:
    return BodyRejected(413, f"The request is too large: at most {most // 1000:,} kB of text go in one. Send less.")
