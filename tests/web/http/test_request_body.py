"""Bodies that arrive in parts: their limit, and clients that leave before the end."""

from functools import partial

import pytest
from starlette.datastructures import Headers
from starlette.types import Message

from tests.support.looping import run
from web.http.request_body import BodyRejected, Disconnected, read_body


def read(*parts: bytes, complete: bool = True) -> bytes:
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.request"} if complete else {"type": "http.disconnect"})

    async def receive() -> Message:
        return messages.pop(0)

    return run(partial(read_body, Headers({}), receive, most=3))


def test_parts_are_joined_up_to_the_limit() -> None:
    assert read(b"ab", b"", b"c") == b"abc"
    with pytest.raises(BodyRejected) as refused:
        read(b"ab", b"cd")
    assert refused.value.status == 413


def test_client_that_leaves_before_the_end_is_noticed() -> None:
    with pytest.raises(Disconnected):
        read(b"ab", complete=False)
