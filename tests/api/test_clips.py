"""Clips at URLs: fetched only from allowed hosts."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from api.access import MAX_WITH_AUDIO
from api.speech import clips
from api.speech.clips import ClipSource
from engine.errors import InvalidInput
from tests.support.looping import run


def clip_source(status: int = 200, content: bytes = b"sound", **headers: str) -> ClipSource:
    """Return a source whose allowed hosts give this response."""
    answer = httpx.MockTransport(lambda _request: httpx.Response(status, content=content, headers=headers))
    return ClipSource(["Clips.example.", "other.example:8443"], client=httpx.AsyncClient(transport=answer))


@pytest.mark.parametrize(
    "url",
    [
        "https://clips.example/a.wav",
        "https://CLIPS.example/",
        "https://clips.example./a.wav",
        "https://other.example:8443/a",
        "https://other.example.:8443/a",
    ],
)
def test_clip_is_fetched_from_allowed_hosts(url: str) -> None:
    assert run(clip_source().read, url) == b"sound"


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
def test_other_urls_are_rejected(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"data URL.* or an https address at clips.example, other.example:8443"):
        run(clip_source().read, url)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (clip_source(302, location="https://evil.example/"), "status 302"),
        (clip_source(404), "status 404"),
        (clip_source(content=bytes(MAX_WITH_AUDIO + 1)), "larger than 32 MB"),
    ],
)
def test_responses_without_a_clip_raise(answer: ClipSource, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        run(answer.read, "https://clips.example/a.wav")


def test_a_clip_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_unknown_host_raises() -> None:
    with pytest.raises(InvalidInput, match=r"cannot be fetched from clips.invalid; send it itself"):
        run(ClipSource(["clips.invalid"]).read, "https://clips.invalid/a.wav")
