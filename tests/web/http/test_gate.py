"""The gate, tested over HTTP on a served page: hosts, origins, routes, bodies, headers and the start-up token."""

import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from engine.errors import InvalidOption
from storage import Storage, VoiceLibrary
from studio.script.formats.decode import MAX_CHARACTERS
from tests.support.fake_engine import FakeEngine, voice
from tests.web.conftest import serving
from tests.web.visitor import Visitor
from web.context import SIGNING
from web.http import alive
from web.http.hosts import AllowedHosts, check_clip_hosts, host_name
from web.http.request_body import MAX_BODY
from web.http.routes import AllowedRoutes
from web.http.startup_token import DAYS, StartupToken
from web.ui import page_version

Serve = Callable[..., str]
Ask = Callable[..., httpx.Response]
EVIL = "http://evil.example"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Storage.open(tmp_path_factory.mktemp("gate") / "voices.db") as storage, serving() as serve:
        yield serve(FakeEngine(), storage, "local", allowed_hosts=["voices.example.org", ".house.example"])


@pytest.fixture(scope="module")
def ask(url: str) -> Iterator[Ask]:
    with httpx.Client(base_url=url, timeout=30) as client:
        yield client.request


def predict(**more: Any) -> dict[str, Any]:
    return {"json": {"data": [], "fn_index": 0, "session_hash": "abc"}, **more}


# --- host names


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:7860", "127.0.0.1:1", "127.8.9.1", "[::1]:7860", "voices.example.org",
     "a.house.example:99", "localhost."],
)  # fmt: skip
def test_allowed_hosts_are_answered(ask: Ask, host: str) -> None:
    assert ask("GET", "", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["x.localhost", "localhost.evil.example", "evil.example", "evil.example:7860", "192.168.1.5", "0.0.0.0", "",
     "house.example", "voices.example.org.evil.example", "evil-house.example", "[::2]", "127.0.0.1.evil.example",
     "localhost@evil.example", "[::1].evil.example", "[::1]evil", "[localhost]", "[::1"],
)  # fmt: skip
def test_other_hosts_get_421(ask: Ask, host: str) -> None:
    for method, path in (("GET", ""), ("POST", "gradio_api/run/predict"), ("GET", "theme.css"), ("GET", "nowhere")):
        answer = ask(method, path, headers={"host": host})
        assert answer.status_code == 421
        assert "--allowed-host" in answer.text


def test_forwarded_host_is_checked(ask: Ask) -> None:
    assert ask("GET", "", headers={"x-forwarded-host": "evil.example"}).status_code == 421
    assert ask("GET", "", headers={"x-forwarded-host": "voices.example.org"}).status_code == 200


def test_each_of_two_proxies_may_add_the_host(ask: Ask) -> None:
    """The first name is the browser's."""
    headers = {"x-forwarded-host": "voices.example.org, inner.example", "origin": "https://voices.example.org"}
    assert ask("POST", "gradio_api/run/predict", **predict(headers=headers)).status_code == 200
    foreign = {**headers, "origin": "https://inner.example"}
    assert ask("POST", "gradio_api/run/predict", **predict(headers=foreign)).status_code == 403


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", b"GET / HTTP/1.0"])
def test_requests_need_one_host(url: str, request_line: bytes) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 80), timeout=10) as plain:
        plain.sendall(request_line + b"\r\nConnection: close\r\n\r\n")
        first = plain.makefile("rb").readline()
    assert first.split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://localhost/", 200),
        ("HTTP://voices.example.org?a=b", 200),
        ("https://localhost:7860/theme.css", 200),
        ("http://localhost/nowhere", 404),
        ("http://evil.example/", 421),
        ("http:///theme.css", 421),
        ("http://localhost/gradio_api/startup-events", 404),  # from a proxy, so not local
    ],
)
def test_url_as_target_is_answered_under_its_own_host(url: str, target: str, status: int) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    for named in ("localhost", "evil.example"):
        with socket.create_connection((parts.hostname, parts.port or 80), timeout=10) as plain:
            plain.sendall(f"GET {target} HTTP/1.1\r\nHost: {named}\r\nConnection: close\r\n\r\n".encode())
            assert int(plain.makefile("rb").readline().split()[1]) == status


def test_ip_addresses_are_allowed_on_all_interfaces() -> None:
    everywhere, here = AllowedHosts("0.0.0.0"), AllowedHosts("127.0.0.1")
    for address in ("192.168.1.5:7860", "[fe80::1]", "8.8.8.8"):
        assert address in everywhere
        assert address not in here
    for name in ("evil.example", "x.localhost"):
        assert name not in everywhere
    assert "mybox" in AllowedHosts("mybox")


@pytest.mark.parametrize("name", [".house.example", "a..house.example", "a b.house.example", "a/b.house.example"])
def test_subdomains_are_host_names(name: str) -> None:
    assert name not in AllowedHosts("127.0.0.1", [".house.example"])


def test_allowed_hosts_rejects_invalid_names() -> None:
    for name in ("", "https://a.example", "a.example:80", "a b", "*.example", ".", "a..b"):
        with pytest.raises(InvalidOption, match="not a valid host name"):
            AllowedHosts("127.0.0.1", [name])


def test_hosts_of_clips_are_those_of_urls() -> None:
    check_clip_hosts(["Example.org", "example.org:8443", "192.0.2.1", "[2001:db8::1]:8443", "bücher.example.", " "])
    never = ("::1", "[::1", "a.example:99999", "a.example:0", "a.example:", "anna@a.example", "a\tb", "b℀.example")
    for host in ("https://a.example", "a.example/clips", ".a.example", "*.example", "a b", "a..b", *never):
        with pytest.raises(InvalidOption, match="not a valid host of clips"):
            check_clip_hosts([host])


@pytest.mark.parametrize(
    ("host", "name"),
    [("a.example:80", "a.example"), ("[::1]:80", "::1"), ("::1", "::1"), ("A.Example.", "a.example"), ("a:b", "a:b")],
)
def test_host_name_is_parsed_from_header(host: str, name: str) -> None:
    assert host_name(host) == name


# --- other origins


FOREIGN = [
    {"origin": EVIL},
    {"origin": "null"},
    {"origin": "https://localhost.evil.example"},
    {"origin": "http://localhost:1"},
    {"origin": "http://x.localhost"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_cross_origin_requests_are_forbidden(ask: Ask, headers: dict[str, str]) -> None:
    calls = ("run/predict", "queue/join", "component_server/", "upload")
    posted = [("POST", f"gradio_api/{each}") for each in calls]
    for method, path in (("GET", ""), ("GET", "theme.css"), ("DELETE", "gradio_api/upload"), *posted):
        answer = ask(method, path, headers=headers)
        assert answer.status_code == 403, path
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_preflight_is_rejected(ask: Ask) -> None:
    headers = {"origin": EVIL, "access-control-request-method": "POST"}
    answer = ask("OPTIONS", "gradio_api/run/predict", headers=headers)
    assert answer.status_code in (403, 404)
    assert "access-control-allow-origin" not in answer.headers


def test_same_origin_requests_are_answered(ask: Ask, url: str) -> None:
    own = {"origin": url.rstrip("/"), "sec-fetch-site": "same-origin"}
    answer = ask("POST", "gradio_api/run/predict", **predict(headers=own))
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert ask("GET", "", headers=followed).status_code == 200, "a link to the page may be followed"


def test_https_origin_behind_a_proxy_is_allowed(ask: Ask) -> None:
    host = {"host": "voices.example.org", "sec-fetch-site": "same-origin"}
    secure, plain = ({**host, "origin": f"{scheme}://voices.example.org"} for scheme in ("https", "http"))
    assert ask("POST", "gradio_api/run/predict", **predict(headers=secure)).status_code == 200
    assert ask("POST", "gradio_api/run/predict", **predict(headers=plain)).status_code == 200
    for forwarded in ("https", "https, http"):
        between = {**plain, "x-forwarded-proto": forwarded}
        assert ask("POST", "gradio_api/run/predict", **predict(headers=between)).status_code == 403


# --- routes


UNUSED = [
    ("POST", "gradio_api/process_recording"), ("GET", "gradio_api/file=http://127.0.0.1:1/"), ("GET", "config"),
    ("GET", "gradio_api/file=/etc/hostname"), ("GET", "gradio_api/file/etc/hostname"), ("GET", "gradio_api/info"),
    ("GET", "gradio_api/proxy=http://127.0.0.1:1/"), ("POST", "gradio_api/call/predict"), ("GET", "gradio_api/token"),
    ("POST", "gradio_api/api/predict"), ("POST", "gradio_api/run/other"), ("GET", "gradio_api/openapi.json"),
    ("GET", "gradio_api/runs"), ("POST", "gradio_api/stream/1"), ("GET", "gradio_api/queue/status"),
    ("GET", "monitoring"), ("POST", "gradio_api/cancel"), ("POST", "gradio_api/reset"),
    ("POST", "gradio_api/vibe-edit"), ("GET", "gradio_api/deep_link"), ("GET", "manifest.json"), ("GET", "docs"),
    ("GET", "openapi.json"), ("POST", "login"), ("GET", "logout"), ("GET", "assets/../../etc/hostname"),
    ("GET", "custom_component/1/client/component/x.js"), ("GET", "gradio_api/startup-events/"), ("PUT", ""),
    ("GET", "gradio_api/app_id"), ("GET", "gradio_api/login_check"), ("GET", "gradio_api/user"), ("TRACE", ""),
    ("GET", "gradio_api/upload_progress"), ("GET", "gradio_api/run/predict"), ("GET", "pwa_icon"), ("GET", "redoc"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), UNUSED)
def test_unused_routes_are_not_found(ask: Ask, method: str, path: str) -> None:
    answer = ask(method, path)
    assert answer.status_code == 404
    assert answer.text == "" or answer.json()["detail"] == "There is nothing here."


def test_startup_events_are_local_only(ask: Ask) -> None:
    assert ask("GET", "gradio_api/startup-events").status_code == 200
    assert ask("GET", "gradio_api/startup-events", headers={"x-forwarded-for": "8.8.8.8"}).status_code == 404


def test_routes_match_under_root_path() -> None:
    surface = AllowedRoutes(root_path="/reprise")
    assert surface.kind("GET", "/reprise") == surface.kind("GET", "/") == "page"
    assert surface.kind("POST", "/reprise/gradio_api/upload") == "upload"
    assert surface.kind("GET", "/reprise/files/a.b") == surface.kind("GET", "/reprise/reprise/files/a.b") == "file"
    assert surface.kind("GET", "/other/") is None


# --- bodies


@pytest.mark.parametrize("path", ["run/predict", "queue/join", "component_server/"])
def test_large_bodies_are_rejected_before_reading(ask: Ask, path: str) -> None:
    answer = ask("POST", f"gradio_api/{path}", json={"data": ["x" * MAX_BODY]})
    assert answer.status_code == 413
    assert "Send less" in answer.json()["detail"]


def test_longest_text_is_accepted_in_any_language(url: str) -> None:
    notice, *_ = Visitor(url).click("rp-script-make", ("あ" * 99 + "。") * (MAX_CHARACTERS // 100), None)
    assert notice == ""
    assert len(("𠮷" * MAX_CHARACTERS).encode()) < MAX_BODY, "the rarest characters have four bytes"


def test_large_body_of_unknown_length_is_aborted(ask: Ask) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 300_000_000:
            sent += 100_000
            yield b" " * 100_000

    try:
        answer = ask("POST", "gradio_api/run/predict", content=endless(), headers={"content-type": "application/json"})
        assert answer.status_code == 413
    except httpx.WriteError:  # the server closed the connection during the upload
        pass
    assert sent < 30_000_000


def test_calls_require_json_content_type(ask: Ask) -> None:
    for kind in ({"content-type": "text/plain"}, {}):
        assert ask("POST", "gradio_api/run/predict", content=b'{"data":[]}', headers=kind).status_code == 415


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ({"cookie": "a=b; reprise_language=de"}, "de"),
        ({"cookie": "reprise_language=zh-CN"}, "zh-CN"),
        ({"cookie": "reprise_language=de,ja"}, "fr"),
        ({"x-note": "reprise_language=de"}, "fr"),
    ],
)
def test_chosen_language_precedes_that_of_the_browser(ask: Ask, headers: dict[str, str], language: str) -> None:
    page = ask("GET", "", headers={"accept-language": "fr", **headers}).text
    assert f"/page-{language}.js" in page


def test_websockets_are_refused(url: str) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(url.replace("http", "ws", 1) + "gradio_api/queue/data"):
        pass
    assert refused.value.response.status_code == 403


# --- pages of another version


@pytest.mark.parametrize("path", ["run/predict", "queue/join", "component_server/"])
def test_calls_of_another_version_are_refused(ask: Ask, path: str) -> None:
    answer = ask("POST", f"gradio_api/{path}", **predict(headers={page_version.HEADER: "0" * 16}))
    assert answer.status_code == 409
    assert "Reload it" in answer.json()["error"]


def test_pages_of_this_version_and_other_clients_are_answered(ask: Ask) -> None:
    version = ask("GET", alive.PATH.lstrip("/")).json()["page"]
    assert f'<meta name="{page_version.META}" content="{version}">' in ask("GET", "").text
    for headers in ({page_version.HEADER: version}, {}):
        assert ask("POST", "gradio_api/run/predict", **predict(headers=headers)).status_code == 200


# --- response headers


def test_caches_neither_keep_nor_change_the_page(ask: Ask) -> None:
    """One of an earlier version names scripts that are gone, and scripts that a CDN has rewritten are blocked."""
    assert ask("GET", "/").headers["cache-control"] == "private, no-cache, no-transform"


def test_page_csp_restricts_scripts_and_framing(ask: Ask) -> None:
    answer = ask("GET", "")
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
    assert "'unsafe-inline'" not in policy["script-src"]
    assert policy["script-src"].count("sha256-") >= 3
    assert policy["frame-ancestors"] == "'none'"
    assert policy["object-src"] == "'none'"
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["", "theme.css", "nowhere", "gradio_api/run/predict"])
def test_every_response_has_security_headers(ask: Ask, path: str) -> None:
    answer = ask("GET", path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


# --- the start-up token


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Storage.open(tmp_path_factory.mktemp("machine") / "voices.db") as storage, serving() as serve:
        storage.voices.add(voice("The machine's"))
        yield serve(FakeEngine(), storage, "machine")


def test_page_without_token_is_unauthorized(link: str) -> None:
    page = link.partition("?")[0]
    with httpx.Client(base_url=page) as stranger:
        for path in ("", "?token=", "?token=wrong", "?token=é"):
            answer = stranger.get(path, headers={"accept-language": "fr"})
            assert answer.status_code == 401
            assert "Jeton" in answer.text
        for call in ("run/predict", "queue/join", "component_server/", "upload"):
            assert stranger.post(f"gradio_api/{call}", json={"data": []}).status_code == 401
        assert stranger.get("gradio_api/queue/data?session_hash=a").status_code == 401
        assert stranger.get("theme.css").status_code == 200, "static files are public"


def test_token_link_sets_a_cookie(link: str) -> None:
    page, _, query = link.partition("?")
    with httpx.Client(base_url=page) as browser:
        answer = browser.get(f"?{query}&__theme=dark")
        assert (answer.status_code, answer.headers["location"]) == (303, "?__theme=dark")
        assert "samesite=lax" in answer.headers["set-cookie"].lower()
        assert "httponly" in answer.headers["set-cookie"].lower()
        visited = browser.get("")
        assert "gradio_config" in visited.text
        assert answer.headers["set-cookie"].partition("=")[0] == visited.headers["set-cookie"].partition("=")[0]
        assert f"max-age={DAYS * 86400}" in visited.headers["set-cookie"].lower(), "each visit renews the cookie"
    assert list(Visitor(link).arrive()["voices"].values()) == ["The machine's"]


@pytest.mark.parametrize(("forwarded", "secure"), [("https", True), ("https,http", True), ("http, https", False)])
def test_cookie_is_for_https_only_if_the_browser_uses_it(link: str, forwarded: str, secure: bool) -> None:
    """The first of several proxies is the browser's."""
    answer = httpx.get(link, headers={"x-forwarded-proto": forwarded})
    assert ("; secure" in answer.headers["set-cookie"].lower()) == secure


def request(cookie: str = "", port: int = 7860) -> dict[str, Any]:
    return {"server": ("127.0.0.1", port), "headers": [(b"cookie", cookie.encode())]}


def test_cookie_survives_restart_and_is_bound_to_server_and_port(library: VoiceLibrary) -> None:
    secret = library.secret(SIGNING)
    before, after = StartupToken(secret), StartupToken(secret)
    cookie = before.cookie(request())
    sent = f"{cookie['key']}={cookie['value']}"
    assert after.admits(request(sent))
    assert before.value != after.value
    assert not after.matches(before.value)
    assert not after.admits(request(sent, port=7861))
    assert not StartupToken(b"another server").admits(request(sent))
    assert not after.admits(request(sent[:-2]))
    assert cookie["max_age"] == DAYS * 86400


@pytest.mark.parametrize(
    "headers",
    [{"x-forwarded-for": "203.0.113.7"}, {"via": "1.1 proxy"}, {"x-real-ip": "1.2.3.4"}, {"forwarded": "for=1.2.3.4"}],
)
def test_proxied_requests_do_not_act_as_machine_owner(link: str, headers: dict[str, str]) -> None:
    assert Visitor(link, **headers).arrive()["voices"] == {}
