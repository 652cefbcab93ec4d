"""The gate: every request passes it before Gradio sees anything of it.

    421  a name that is not this server's            404  nothing that the page uses
    403  a page of another origin                    401  this machine alone, and no start-up token
    413  too much, 408 too slow, 415 not JSON        429  too many calls of one address

What passes is answered with the headers of `AnswerHeaders`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.http.bodies import CallRefused
from web.http.body import BodyRefused, Disconnected, read_body, replayed
from web.http.calls import PageCalls
from web.http.client import LOCAL, is_plainly_local
from web.http.headers import AnswerHeaders
from web.http.hosts import KnownHosts, is_loopback
from web.http.origins import is_foreign, is_visit
from web.http.responses import refusal, wait_a_moment
from web.http.startup_token import NAME, StartupToken
from web.http.surface import Kind, Surface
from web.identity.addresses import address_of
from web.limits.lanes import Crowded, Lanes

CALLS_AT_ONCE, CALLS_INSIDE = 12, 120  # of one address
ARRIVING = 90  # bodies on their way from one address
STREAMS = 60  # of one address; each open page has one or two
UNKNOWN_HOST = (
    "This server is not known by that name. Open it by the address that it printed at its start, or have its host "
    "allow the name: --allowed-host NAME."
)
FOREIGN = "This request came from another site's page, and was refused."
NOTHING = "There is nothing here."
NOT_JSON = "Calls are sent as application/json."
CROWDED = "Too many requests from this address are being answered. Try again in a moment."
LOCKED = "Open the link that Reprise printed when it started: it holds the token for this browser."

_OPEN_KINDS = ("static", "start", "file")


@dataclass(frozen=True)
class Policy:
    """What a gate lets through.

    hosts: the server's names. surface: what answers. token: the start-up token of a server for this machine alone.
    framed: whether the Hub's page may frame this one.
    locked_page: HTML for who has no token.
    """

    hosts: KnownHosts
    surface: Surface
    token: StartupToken | None = None
    framed: bool = False
    locked_page: Callable[[Headers], str] = lambda _headers: LOCKED


def guarded(
    policy: Policy, calls: PageCalls | None = None, inner: Callable[[ASGIApp], ASGIApp] | None = None
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """A lifespan that puts a gate before an application. Gradio puts its own middleware outside of what it is given.

    `calls`: those of its page. `inner`: more middleware, behind the gate.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        assert app.middleware_stack is not None, "it was made for this call"
        behind = inner(app.middleware_stack) if inner else app.middleware_stack
        app.middleware_stack = Gate(behind, policy, calls)
        yield

    return lifespan


class Gate:
    """ASGI middleware, outside of everything else."""

    def __init__(self, app: ASGIApp, policy: Policy, page: PageCalls | None = None) -> None:
        self._app, self._policy, self._page = app, policy, page
        self._headers = AnswerHeaders(framed=policy.framed)
        self._arriving = Lanes(ARRIVING, ARRIVING)
        self._calls, self._streams = Lanes(CALLS_AT_ONCE, CALLS_INSIDE), Lanes(STREAMS, STREAMS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or passes on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self._dressed(send, trusted=_is_trusted(scope)))
        else:  # the page opens no websocket
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        kind = self._policy.surface.kind(scope["method"], scope["path"])
        refused = self._refused(scope, headers, kind)
        if refused is not None or kind is None:
            await (refused or refusal(404, NOTHING, headers))(scope, receive, send)
            return
        scope[LOCAL] = is_plainly_local(scope, headers)
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"x-gradio-server"]
        try:
            await self._passed(kind, address_of(HTTPConnection(scope)), scope, receive, send)
        except Crowded:
            await wait_a_moment(429, CROWDED, headers, 1)(scope, receive, send)
        except CallRefused as error:
            await refusal(error.status, str(error), headers)(scope, receive, send)
        except BodyRefused as error:
            await refusal(error.status, str(error), headers, {"Connection": "close"})(scope, receive, send)
        except Disconnected:
            return

    def _refused(self, scope: Scope, headers: Headers, kind: Kind | None) -> Response | None:
        """Why the request goes no further, None where it does."""
        policy = self._policy
        names = [*headers.getlist("host"), *headers.getlist("x-forwarded-host")]
        if len(headers.getlist("host")) != 1 or not all(name.partition(",")[0] in policy.hosts for name in names):
            return refusal(421, UNKNOWN_HOST, headers)
        if kind is None:
            return refusal(404, NOTHING, headers)
        visit = kind == "page" and is_visit(scope["method"], headers, framed=policy.framed)
        if kind != "file" and not visit and is_foreign(headers, scheme=scope.get("scheme", "http")):
            return refusal(403, FOREIGN, headers)
        if kind == "start" and not is_plainly_local(scope, headers):
            return refusal(404, NOTHING, headers)
        return self._locked(policy.token, scope, headers, kind) if policy.token and kind not in _OPEN_KINDS else None

    def _locked(self, token: StartupToken, scope: Scope, headers: Headers, kind: Kind) -> Response | None:
        """The way in for who shows the token, None for who has shown it."""
        port = (scope.get("server") or ("", 0))[1] or 0
        asked = QueryParams(scope["query_string"])
        if kind == "page" and token.matches(asked.get(NAME, "")):
            rest = [(name, value) for name, value in asked.multi_items() if name != NAME]
            answer = RedirectResponse(f"?{QueryParams(rest)}" if rest else "./", 303, {"Cache-Control": "no-store"})
            answer.set_cookie(**token.cookie(port))
            return answer
        if token.knows(cookie_parser(headers.get("cookie", "")), port):
            return None
        if kind != "page":
            return refusal(401, LOCKED, headers)
        return HTMLResponse(self._policy.locked_page(headers), 401, {"Cache-Control": "no-store"})

    async def _passed(self, kind: Kind, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        match kind:
            case "call":
                async with self._arriving.enter(address):
                    body = await _json(Headers(scope=scope), receive)
                if self._page:
                    self._page.check(scope["path"], body)
                async with self._calls.enter(address):  # what comes slowly has held no place
                    await self._app(scope, replayed(body, receive), send)
            case "stream":
                async with self._streams.enter(address):
                    ended = self._page.without_session(scope) if self._page else None
                    await (ended or self._app)(scope, receive, send)
            case _:
                await self._app(scope, receive, send)

    def _dressed(self, send: Send, *, trusted: bool) -> Send:
        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                self._headers.apply(MutableHeaders(scope=message), trusted=trusted)
            await send(message)

        return told


async def _json(headers: Headers, receive: Receive) -> bytes:
    """The body of a call. Raises BodyRefused, Disconnected."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BodyRefused(415, NOT_JSON)
    return await read_body(headers, receive)


def _is_trusted(scope: Scope) -> bool:
    """Whether browsers take the page's origin for one that nobody in between can have changed."""
    headers = Headers(scope=scope)
    secure = headers.get("x-forwarded-proto", scope.get("scheme", "http")) == "https"
    return secure or is_loopback(headers.get("host", ""))
