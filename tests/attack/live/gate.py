"""Requests that the gate refuses: foreign pages, unknown hosts, unused routes, large bodies."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import httpx

from tests.attack.attack import Attack, Broken
from tests.attack.live.guest import Guest
from tests.attack.live.server import shared_server
from web.http.request_body import MAX_BODY

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
    *(("POST", f"gradio_api/{name}") for name in ("run/predict", "queue/join", "upload", "component_server")),
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
    *("POST gradio_api/cancel", "POST gradio_api/reset"),
    *("POST gradio_api/stream/a", "GET gradio_api/stream/a/b/c/playlist.m3u8", "GET svelte/../../x"),
    *("POST run-history/connect", "GET run-history/records", "GET static/../../../etc/passwd", "GET .git/config"),
    *("PUT ", "DELETE config", "TRACE ", "PATCH gradio_api/upload", "GET %2e%2e/%2e%2e/etc/passwd"),
)


@dataclass(frozen=True)
class GateRequest:
    """A request and its expected answer."""

    method: str
    path: str
    expected: tuple[int, ...]
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    with_cookie: bool = True  # whether to send a visitor's cookie


def _cases(seed: int, count: int) -> Iterator[GateRequest]:
    yield from list(_requests())[:count]


def _requests() -> Iterator[GateRequest]:
    for host in HOSTS:
        for method, path in (("GET", ""), ("GET", "gradio_api/queue/data"), ("POST", "gradio_api/run/predict")):
            yield GateRequest(
                method, path, (421, 400) if " " in host else (421,), {"Host": host}, b"{}" * (method == "POST")
            )
    for origin in ORIGINS:
        yield GateRequest("GET", "", (200, 403), {"Origin": origin})  # other sites may link to the page but not read it
        for method, path in CALLS:
            yield GateRequest(method, path, (403,), {"Origin": origin, **JSON}, b"{}" * (method == "POST"))
    for method, path in CALLS:
        yield GateRequest(method, path, (403,), {"Sec-Fetch-Site": "cross-site", **JSON}, b"{}" * (method == "POST"))
        yield GateRequest(method, path, (401, 403), JSON, b"{}" * (method == "POST"), with_cookie=False)
    for line in UNUSED:
        method, _, path = line.partition(" ")
        yield GateRequest(method, path, (403, 404, 405))
    for path in ("gradio_api/run/predict", "gradio_api/queue/join", "gradio_api/component_server"):
        yield GateRequest("POST", path, (413,), JSON, b'{"data": ["' + b"a" * MAX_BODY + b'"]}')
        for body in (b"", b"{", b"[" * 100_000, b"null", b"\xff\xfe", b'{"data": NaN}', b'{"fn_index": "x"}'):
            yield GateRequest("POST", path, (400, 403, 404, 413, 415, 422), JSON, body)


@cache
def _guest(*options: str) -> Guest:
    return Guest(shared_server(*options))


def _send(request: GateRequest) -> None:
    # A page in local mode requires the start-up token.
    server = shared_server("--owners", "browser") if request.with_cookie else shared_server()
    headers = {name: value.replace("{port}", str(server.port)) for name, value in request.headers.items()}
    http = _guest("--owners", "browser").http if request.with_cookie else httpx.Client(base_url=server.url, timeout=60)
    with http.stream(
        request.method, request.path, headers=headers, content=request.body, follow_redirects=False
    ) as answer:
        endless = answer.headers.get("Content-Type", "").startswith("text/event-stream")
        text = "" if endless else answer.read().decode("utf-8", "replace")
    said = f"{request.method} /{request.path} {headers or ''} {'' if request.with_cookie else 'without the cookie '}"
    if answer.status_code not in request.expected:
        raise Broken(
            f"{said}was answered with {answer.status_code} instead of {' or '.join(map(str, request.expected))}."
        )
    if headers.get("Origin") and answer.headers.get("Access-Control-Allow-Origin") in ("*", headers["Origin"]):
        raise Broken(f"{said}: CORS allows that page to read the answer.")
    if "Traceback" in text or "root:x:" in text:
        raise Broken(f"{said}returned internals of the server: {text[:300]}")


WHAT = "foreign origins and hosts, unused routes, large and damaged bodies"
GATE = Attack("gate", WHAT, _cases, _send, len(list(_requests())), 120.0, None, alone=True)
