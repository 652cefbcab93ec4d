"""Static files are read and compressed once, then sent from the cache; browsers do not ask for them again."""

from typing import Any

import httpx
import pytest

from engine.byte_lru import ByteLRU
from tests.support.looping import run
from web.http.static_cache import StaticCache

SCRIPT = "/assets/index-Bn-scOFB.js"
OURS = "/reprise/static/0123456789abcdef/main.js"


class Files:
    """ASGI application that answers with its request count and the accepted encoding, in two parts."""

    def __init__(self, status: int = 200, **headers: str) -> None:
        self.asked = 0
        self._status, self._headers = status, headers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in self._headers.items()]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{self.asked} ".encode(), "more_body": True})
        await send({"type": "http.response.body", "body": dict(scope["headers"]).get(b"accept-encoding", b"")})


def ask(files: Files, path: str, *headers: dict[str, str], **how: Any) -> list[str]:
    """Return the bodies of the responses, one for each of `headers`."""
    answers = responses(files, path, *headers, **how)
    assert all(answer.headers.get("etag") == files._headers.get("etag") for answer in answers)
    return [answer.text for answer in answers]


def responses(
    files: Files, path: str, *headers: dict[str, str], method: str = "GET", limit: int = 1_000
) -> list[httpx.Response]:
    async def asking() -> list[httpx.Response]:
        transport = httpx.ASGITransport(StaticCache(files, ByteLRU(limit)))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [await client.request(method, path, headers={"accept-encoding": "", **given}) for given in headers]

    return run(asking)


@pytest.mark.parametrize("path", [SCRIPT, OURS, "/voices" + SCRIPT])
def test_file_is_read_once(path: str) -> None:
    files = Files(etag='"a"')
    assert ask(files, path, {}, {}, {}) == ["1 "] * 3
    assert files.asked == 1


def test_each_encoding_is_cached_separately() -> None:
    files = Files()
    accepted = ("gzip, br", "br", "gzip", "", "gzip")
    assert ask(files, SCRIPT, *({"accept-encoding": each} for each in accepted)) == [
        "1 gzip, br", "1 gzip, br", "2 gzip", "3 ", "2 gzip",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "path", "expected"),
    [
        (Files(), SCRIPT, "public, max-age=31536000, immutable"),
        (Files(cache_control="no-store"), SCRIPT, "no-store"),
        (Files(set_cookie="a=b"), SCRIPT, None),
        (Files(404), SCRIPT, None),
        (Files(), "/theme.css", None),
    ],
    ids=["hashed", "told otherwise", "cookie", "missing", "no hash"],
)
def test_browsers_keep_files_with_hashes(files: Files, path: str, expected: str | None) -> None:
    assert [answer.headers.get("cache-control") for answer in responses(files, path, {}, {})] == [expected] * 2


@pytest.mark.parametrize(
    ("files", "path", "how"),
    [
        (Files(404), SCRIPT, {}),
        (Files(set_cookie="a=b"), SCRIPT, {}),
        (Files(), "/theme.css", {}),
        (Files(), "/reprise/alive", {}),
        (Files(), "/reprise/static/main.js", {}),
        (Files(), SCRIPT, {"method": "HEAD"}),
        (Files(), SCRIPT, {"limit": 1}),
    ],
    ids=["missing", "cookie", "theme", "alive", "no hash", "HEAD", "too large"],
)
def test_other_responses_are_not_cached(files: Files, path: str, how: dict[str, Any]) -> None:
    ask(files, path, {}, {}, **how)
    assert files.asked == 2


def test_range_requests_bypass_the_cache() -> None:
    files = Files()
    assert ask(files, SCRIPT, {}, {"range": "bytes=0-1"}, {}) == ["1 ", "2 ", "1 "]
