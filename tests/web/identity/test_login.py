"""The login middleware: alone, and in front of Gradio's login."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from storage import Storage
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine
from tests.support.looping import run
from tests.web.visitor import page_config
from web.identity import login
from web.identity.accounts import load_accounts
from web.identity.login import AT_ONCE, LOGIN_NOTE, MAX_BODY, LoginMiddleware
from web.limits.throttle import PAIR, LoginThrottle

RIGHT = "her password"
Serve = Callable[..., str]


class FakeLogin:
    """A login like Gradio's behind the middleware; records the forms that reach it."""

    def __init__(self) -> None:
        self.reached: list[tuple[str, str]] = []
        self.clock = Clock()
        self.gate: asyncio.Event | None = None
        paths = ("/login", "/login/", "/reprise/login", "/other")
        app = Starlette(routes=[Route(path, self._answer, methods=["GET", "POST"]) for path in paths])
        self.app = LoginMiddleware(app, LoginThrottle(self.clock))

    async def _answer(self, request: Request) -> JSONResponse:
        form = await request.form()
        self.reached.append((str(form.get("username")), str(form.get("password"))))
        if self.gate:
            await self.gate.wait()
        right = form.get("password") == RIGHT
        return JSONResponse({"success": True} if right else {"detail": "Incorrect credentials."}, 200 if right else 400)

    def post(self, path: str = "/login", **request: Any) -> httpx.Response:
        return run(partial(self.send, path, **request))

    async def send(self, path: str = "/login", client: tuple[str, int] = ("192.0.2.1", 1), **request: Any) -> Any:
        request = {"data": {"username": "anna", "password": "wrong"}} | request
        if "content" in request or "files" in request:
            del request["data"]
        transport = httpx.ASGITransport(self.app, client=client)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as visitor:
            return await visitor.post(path, **request)


def form(password: str, user: str = "anna") -> dict[str, Any]:
    """Return a login form as Gradio's page sends it."""
    return {"files": {"username": (None, user), "password": (None, password)}}


@pytest.mark.parametrize("path", ["/login", "/login/", "/reprise/login"])
def test_login_is_throttled_after_wrong_passwords(path: str) -> None:
    site = FakeLogin()
    for _ in range(PAIR.free):
        assert site.post(path, **form("wrong")).status_code == 400
    refused = site.post(path, **form(RIGHT))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert refused.json() == {"detail": "There were too many wrong tries. Log in again in 1 s."}
    assert len(site.reached) == PAIR.free, "a throttled form does not reach the login"
    site.clock.now += 1
    assert site.post(path, **form(RIGHT)).status_code == 200
    assert site.reached[-1] == ("anna", RIGHT), "the whole form is passed on"
    assert site.post(path, **form("wrong")).status_code == 400, "a successful login resets the count"


def test_form_encodings_and_unicode_forms_of_a_name_share_a_count() -> None:
    site = FakeLogin()
    for name in ("Zo\u00eb", "  Zoe\u0308 ", "Zoe\u0308"):
        assert site.post(**form("wrong", name)).status_code == 400
    assert site.post(data={"username": "Zo\u00eb", "password": RIGHT}).status_code == 429
    assert site.post(data={"username": "ben", "password": RIGHT}).status_code == 200


def test_client_addresses_are_counted_separately() -> None:
    site = FakeLogin()
    for _ in range(PAIR.free):
        site.post()
    assert site.post().status_code == 429
    assert site.post(client=("192.0.2.2", 1)).status_code == 400


def test_concurrent_logins_get_no_extra_tries() -> None:
    site = FakeLogin()

    async def burst() -> list[int]:
        return [answer.status_code for answer in await asyncio.gather(*(site.send() for _ in range(50)))]

    assert sorted(run(burst)).count(400) == PAIR.free
    assert len(site.reached) == PAIR.free


def test_concurrent_logins_are_bounded() -> None:
    site = FakeLogin()

    async def crowd() -> list[int]:
        site.gate = asyncio.Event()
        visitors = [asyncio.ensure_future(site.send(client=(f"192.0.2.{number}", 1))) for number in range(20)]
        done, _ = await asyncio.wait(visitors, return_when=asyncio.FIRST_COMPLETED)
        assert {visitor.result().headers["retry-after"] for visitor in done} == {"2"}
        while len(site.reached) < AT_ONCE:
            await asyncio.sleep(0)
        site.gate.set()
        return [answer.status_code for answer in await asyncio.gather(*visitors)]

    statuses = run(crowd)
    assert (statuses.count(400), statuses.count(503)) == (AT_ONCE, 20 - AT_ONCE)
    site.gate = None
    assert site.post(data={"username": "anna", "password": RIGHT}).status_code == 200, "the slots are free again"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"username=anna",
        b"password=wrong",
        b"username=anna&password=a&username=ben",
        b"username=anna&password=a&password=b",
        b"\xff\x00%%%=&&&===",
        b"&".join(b"f%d=1" % number for number in range(50)),
    ],
)
def test_malformed_login_forms_are_rejected(content: bytes) -> None:
    site = FakeLogin()
    refused = site.post(content=content, headers={"content-type": "application/x-www-form-urlencoded"})
    assert (refused.status_code, refused.json()) == (400, {"detail": login.NO_FORM})
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x", "application/json", "", "\xff"):
        assert site.post(content=content, headers={"content-type": kind.encode("latin-1")}).status_code == 400
    assert site.reached == []


def test_file_as_password_is_rejected() -> None:
    site = FakeLogin()
    files = {"username": (None, "anna"), "password": ("a.txt", b"wrong")}
    assert site.post(files=files).status_code == 400
    assert site.reached == []


@pytest.mark.parametrize("chunked", [False, True])
def test_large_body_is_rejected_during_upload(chunked: bool) -> None:
    site = FakeLogin()
    read = 0

    async def blocks() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(1_000):
            read += 1_000
            yield b"a" * 1_000

    refused = site.post(content=blocks() if chunked else b"a" * (MAX_BODY + 1))
    assert (refused.status_code, refused.json()) == (413, {"detail": login.TOO_LARGE})
    assert read <= MAX_BODY + 1_000
    assert site.reached == []


def test_slow_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "MAX_SECONDS", 0.01)
    site = FakeLogin()

    async def nothing() -> AsyncIterator[bytes]:
        yield b"username="
        await asyncio.sleep(60)

    assert site.post(content=nothing()).status_code == 408
    assert site.reached == []


def test_other_paths_pass_through() -> None:
    site = FakeLogin()
    for _ in range(30):
        assert site.post("/other", content=b"a" * (MAX_BODY + 1)).status_code == 400
    assert len(site.reached) == 30


# --- in front of Gradio


@pytest.mark.usefixtures("quick_hashes")
def test_served_page_throttles_logins_sets_safe_cookies_and_logs_no_credentials(
    serve: Serve,
    engine: FakeEngine,
    storage: Storage,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger("web").setLevel(logging.INFO)  # as in app.py
    url = serve(engine, storage, "user", accounts=load_accounts(["anna-canary:right-canary"]))
    with httpx.Client(base_url=url) as visitor:
        assert LOGIN_NOTE in visitor.get("").text
        wrong = {"username": "anna-canary", "password": "wrong-canary"}
        statuses = [visitor.post("login", data=wrong).status_code for _ in range(PAIR.free)]
        while statuses[-1] == 400:  # a busy machine may take longer for a hash than the first delay
            statuses.append(visitor.post("login", data=wrong).status_code)
        assert statuses[-1] == 429
        assert set(statuses[:-1]) == {400}
        for odd in ("\udcff-canary", "nobody-canary\0", "canary" * 500):
            data = f"username={odd}&password={odd}".encode("utf-8", "surrogatepass")
            headers = {"content-type": "application/x-www-form-urlencoded"}
            assert visitor.post("login/", content=data, headers=headers).status_code in (400, 429)
        assert visitor.get("login?username=canary&password=canary").status_code in (404, 405)
    with httpx.Client(base_url=url, transport=httpx.HTTPTransport(local_address="127.0.0.2")) as elsewhere:
        right = {"username": "anna-canary", "password": "right-canary"}
        answer = elsewhere.post("login", data=right)
        assert answer.status_code == 200
        cookies = answer.headers.get_list("set-cookie")
        assert len(cookies) == 2
        for cookie in cookies:
            assert cookie.endswith("SameSite=Lax")
            assert "httponly" in cookie.lower()
            assert cookie.lower().count("samesite") == 1
        token = next(iter(elsewhere.cookies.jar)).value
        assert page_config(elsewhere.get("").text)["dependencies"]
        # Another browser of hers stays logged in when this one logs out, as by the link in the heading.
        with httpx.Client(base_url=url, transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other:
            assert other.post("login", data=right).status_code == 200
            assert elsewhere.get("logout?all_session=false").status_code == 302
            assert [LOGIN_NOTE in browser.get("").text for browser in (elsewhere, other)] == [True, False]
    out, err = capfd.readouterr()
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    logged = out + err + "".join(record.getMessage() + str(record.exc_text) for record in ours)
    assert "canary" not in logged
    assert token
    assert token not in logged
