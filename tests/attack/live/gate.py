"""What is refused at the door: foreign pages, unknown hosts, routes that the page does not use, bodies too large."""

from collections.abc import Iterator
from dataclasses import dataclass, field

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
PLACES = ("", "config", "gradio_api/queue/data?session_hash=a", "gradio_api/heartbeat/a", "gradio_api/upload_progress")
UNUSED = (
    *("GET gradio_api/info", "GET gradio_api/openapi.json", "GET openapi.json", "GET docs", "GET redoc", "GET token"),
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
    """A request, and how it has to be answered."""

    method: str
    path: str
    wanted: tuple[int, ...]
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    known: bool = True  # whether it comes with the cookie of who was let in


def _knocks(seed: int, count: int) -> Iterator[Knock]:
    yield from list(_all())[:count]


def _all() -> Iterator[Knock]:
    for host in HOSTS:
        for path in ("", "config"):
            yield Knock("GET", path, (421,), {"Host": host})
        yield Knock("POST", "gradio_api/run/predict", (421,), {"Host": host}, b"{}")
    for origin in ORIGINS:
        for path in PLACES[:2]:
            yield Knock("GET", path, (403,), {"Origin": origin})
        for path in (
            "gradio_api/run/predict",
            "gradio_api/queue/join",
            "gradio_api/upload",
            "gradio_api/component_server",
        ):
            yield Knock("POST", path, (403,), {"Origin": origin}, b"{}")
    for path in PLACES[1:]:
        yield Knock("GET", path, (403,), {"Sec-Fetch-Site": "cross-site"})
    for line in UNUSED:
        method, _, path = line.partition(" ")
        yield Knock(method, path, (403, 404, 405))
    for path in ("gradio_api/run/predict", "gradio_api/queue/join", "gradio_api/component_server"):
        yield Knock(
            "POST", path, (413,), {"Content-Type": "application/json"}, b'{"data": ["' + b"a" * (2 << 20) + b'"]}'
        )
        for body in (b"", b"{", b"[" * 100_000, b"null", b"\xff\xfe", b'{"data": NaN}', b'{"fn_index": "x"}'):
            yield Knock("POST", path, (400, 401, 403, 404, 413, 422), {"Content-Type": "application/json"}, body)
    for path in ("config", "gradio_api/queue/data?session_hash=a"):
        yield Knock("GET", path, (401, 403), known=False)
    yield Knock("POST", "gradio_api/run/predict", (401, 403), {}, b"{}", known=False)


def _knock(knock: Knock) -> None:
    server = shared()
    headers = {name: value.replace("{port}", str(server.port)) for name, value in knock.headers.items()}
    guest = Guest(server)
    http = guest.http if knock.known else httpx.Client(base_url=server.url, timeout=60)
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
GATE = Attack("gate", WHAT, _knocks, _knock, len(list(_all())), 30.0, None, alone=True)
