"""Clips at addresses: from hosts that are allowed by name, and from no others."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from api.access import MAX_WITH_AUDIO
from api.speech import clips
from api.speech.clips import ClipSource
from engine.errors import InvalidInput
from tests.support.looping import run


def source(status: int = 200, content: bytes = b"sound", **headers: str) -> ClipSource:
    """Clips of allowed hosts that answer like this."""
    answer = httpx.MockTransport(lambda _request: httpx.Response(status, content=content, headers=headers))
    return ClipSource(["Clips.example", "other.example:8443"], client=httpx.AsyncClient(transport=answer))


@pytest.mark.parametrize(
    "url", ["https://clips.example/a.wav", "https://CLIPS.example/", "https://other.example:8443/a"]
)
def test_allowed_hosts_are_asked(url: str) -> None:
    assert run(source().read, url) == b"sound"


@pytest.mark.parametrize(
    "url",
    [
        "http://clips.example/a.wav",
        "https://clips.example:8443/a.wav",
        "https://clips.example.evil.example/a.wav",
        "https://clips.example@evil.example/a.wav",
        "https://evil.example/https://clips.example/",
        "file:///etc/passwd",
        "https://[/",
        "",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"data URL.* or an https address at clips.example, other.example:8443"):
        run(source().read, url)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (source(302, location="https://evil.example/"), "status 302"),
        (source(404), "status 404"),
        (source(content=bytes(MAX_WITH_AUDIO + 1)), "larger than 32 MB"),
    ],
)
def test_answers_without_a_clip_are_told(answer: ClipSource, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        run(answer.read, "https://clips.example/a.wav")


def test_a_clip_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts come without a pause that is long enough for the timeout between two of them."""

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0)
                yield b"."

    monkeypatch.setattr(clips, "FETCH_TIMEOUT", 0.05)
    answer = httpx.MockTransport(lambda _request: httpx.Response(200, stream=Endless()))
    endless = ClipSource(["clips.example"], client=httpx.AsyncClient(transport=answer))
    with pytest.raises(InvalidInput, match=r"cannot be fetched from clips\.example"):
        run(endless.read, "https://clips.example/a.wav")


def test_a_host_that_is_not_there_is_told() -> None:
    with pytest.raises(InvalidInput, match=r"cannot be fetched from clips.invalid; send it itself"):
        run(ClipSource(["clips.invalid"]).read, "https://clips.invalid/a.wav")
