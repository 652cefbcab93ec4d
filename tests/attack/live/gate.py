"""Requests that the gate refuses: foreign pages, unknown hosts, unused routes, large bodies."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import httpx

from tests.attack.attack import Attack, Broken
from tests.attack.live.guest import Guest
from tests.attack.live.server import shared

HOSTS = (
    *("evil.example", "evil.example:{port}", "x.localhost:{port}", "localhost.evil.example", "LOCALHOST.evil.example"),
    *("127.0.0.1.nip.io:{port}", "[::1].evil.example", "localhost:{port}@evil.example", "0x7f000001.example", "a b"),
)
ORIGINS = (
    *("http://evil.example", "http://x.localhost:{port}", "http://localhost:{port}.evil.example", "http://[::1]:1"),
    *("https://localhost:{port}", "http://localhost:1", "http://127.0.0.1.nip.io:{port}", "null", "file://", "*"),
)
CALLS = (
    *(("GET", "gradio_api/queue/data?session_hash=a"), ("GET", "gradio_api/heartbeat/a")),
    *(("POST", f"gradio_api/{name}") for name in ("run/predict", "queue/join", "upload", "component_server", "cancel")),
)
JSON = {"Content-Type": "application/json"}
UNUSED = (
    *(
        "GET config",
        "GET gradio_api/info",
        "GET gradio_api/openapi.json",
        "GET openapi.json",
        "GET docs",
        "GET redoc",
        "GET token",
    ),
    *(
        "GET monitoring",
        "GET monitoring/summary",
        "GET gradio_api/profiling/traces",
        "GET gradio_api/profiling/summary",
    ),
    *("POST gradio_api/process_recording", "GET dev/reload", "GET gradio_api/deep_link", "GET pwa_icon", "GET runs"),
    *("POST gradio_api/vibe-edit/", "GET gradio_api/vibe-code/", "POST gradio_api/undo-vibe-edit", "GET manifest.json"),
    *("POST gradio_api/api/predict", "POST gradio_api/call/predict", "POST gradio_api/call/v2/predict"),
    *("GET gradio_api/file=http://127.0.0.1:1/x", "GET gradio_api/proxy=http://127.0.0.1:1/"),
    *("GET gradio_api/file=/etc/passwd", "GET gradio_api/file//etc/passwd", "GET custom_component/a/b/c/d"),
    *("POST gradio_api/stream/a", "GET gradio_api/stream/a/b/c/playlist.m3u8", "GET svelte/../../x"),
    *("POST run-history/connect", "GET run-history/records", "GET static/../../../etc/passwd", "GET .git/config"),
    *("PUT ", "DELETE config", "TRACE ", "PATCH gradio_api/upload", "GET %2e%2e/%2e%2e/etc/passwd"),
)


@dataclass(frozen=True)
class Knock:
    """A request and its expected answer."""

    method: str
    path: str
    wanted: tuple[int, ...]
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    known: bool = True  # whether it is sent with a visitor's cookie


def _knocks(seed: int, count: int) -> Iterator[Knock]:
    yield from list(_all())[:count]


def _all() -> Iterator[Knock]:
    for host in HOSTS:
        for method, path in (("GET", ""), ("GET", "gradio_api/queue/data"), ("POST", "gradio_api/run/predict")):
            yield Knock(method, path, (421, 400) if " " in host else (421,), {"Host": host}, b"{}" * (method == "POST"))
    for origin in ORIGINS:
        yield Knock("GET", "", (200, 403), {"Origin": origin})  # other sites may link to the page, but not read it
        for method, path in CALLS:
            yield Knock(method, path, (403,), {"Origin": origin, **JSON}, b"{}" * (method == "POST"))
    for method, path in CALLS:
        yield Knock(method, path, (403,), {"Sec-Fetch-Site": "cross-site", **JSON}, b"{}" * (method == "POST"))
        yield Knock(method, path, (401, 403), JSON, b"{}" * (method == "POST"), known=False)
    for line in UNUSED:
        method, _, path = line.partition(" ")
        yield Knock(method, path, (403, 404, 405))
    for path in ("gradio_api/run/predict", "gradio_api/queue/join", "gradio_api/component_server"):
        yield Knock("POST", path, (413,), JSON, b'{"data": ["' + b"a" * (2 << 20) + b'"]}')
        for body in (b"", b"{", b"[" * 100_000, b"null", b"\xff\xfe", b'{"data": NaN}', b'{"fn_index": "x"}'):
            yield Knock("POST", path, (400, 403, 404, 413, 415, 422), JSON, body)


@cache
def _guest(*options: str) -> Guest:
    return Guest(shared(*options))


def _knock(knock: Knock) -> None:
    # A page for this machine only requires the start-up token.
    server = shared("--owners", "browser") if knock.known else shared()
    headers = {name: value.replace("{port}", str(server.port)) for name, value in knock.headers.items()}
    http = _guest("--owners", "browser").http if knock.known else httpx.Client(base_url=server.url, timeout=60)
    with http.stream(knock.method, knock.path, headers=headers, content=knock.body, follow_redirects=False) as answer:
        endless = answer.headers.get("Content-Type", "").startswith("text/event-stream")
        text = "" if endless else answer.read().decode("utf-8", "replace")
    said = f"{knock.method} /{knock.path} {headers or ''} {'' if knock.known else 'without the cookie '}"
    if answer.status_code not in knock.wanted:
        raise Broken(f"{said}was answered with {answer.status_code} instead of {' or '.join(map(str, knock.wanted))}.")
    if headers.get("Origin") and answer.headers.get("Access-Control-Allow-Origin") in ("*", headers["Origin"]):
        raise Broken(f"{said}: the answer may be read by that page.")
    if "Traceback" in text or "root:x:" in text:
        raise Broken(f"{said}gave away the server's insides: {text[:300]}")


WHAT = "foreign origins and hosts, unused routes, large and spoiled bodies"
GATE = Attack("gate", WHAT, _knocks, _knock, len(list(_all())), 120.0, None, alone=True)
