"""The gate: middleware in front of Gradio that checks every request.

    421  unknown host name                           404  not a route that the page uses
    403  request from a page of another origin       401  local-only server, missing start-up token
    413  too large, 408 too slow, 415 not JSON       409  call of a page of another version
    429  too many calls from one address

Responses get the headers of `ResponseHeaders`.

API requests are passed to the API's own application, which authenticates them by key. Keys are valid under any host
name. Requests count as local only if they come from this machine and not from another site's page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.http.calls import CallRejected, CallValidator
from web.http.headers import ResponseHeaders
from web.http.hosts import IS_LOCAL, AllowedHosts, is_local_request, is_loopback, with_target_as_path
from web.http.language import with_chosen_language
from web.http.origins import browser_scheme, is_cross_origin, is_navigation
from web.http.request_body import BodyRejected, Disconnected, read_body, replay_body
from web.http.responses import error_response
from web.http.routes import AllowedRoutes, RouteKind
from web.http.startup_token import TOKEN_PARAMETER, StartupToken
from web.http.static_cache import StaticCache
from web.identity.addresses import client_address
from web.identity.hub_sign_in import answer_sign_in
from web.limits.concurrency import ConcurrencyLimiter, TooManyCalls
from web.ui import page_version

CALLS_AT_ONCE, CALLS_INSIDE = 12, 120  # per address
ARRIVING = 90  # bodies being received from one address
STREAMS = 60  # per address; each open page has one or two
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
class GatePolicy:
    """The requests that the gate accepts.

    hosts: the server's host names. routes: the enabled routes. token: the start-up token of a local-only server.
    framed: whether the Hugging Face Hub may show the page in a frame. locked_page: HTML for visitors without the token.
    """

    hosts: AllowedHosts
    routes: AllowedRoutes
    token: StartupToken | None = None
    framed: bool = False
    locked_page: Callable[[Headers], str] = lambda _headers: LOCKED


def gate_lifespan(
    policy: GatePolicy,
    validator: CallValidator | None = None,
    inner: Callable[[ASGIApp], ASGIApp] | None = None,
    api: ASGIApp | None = None,
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return a lifespan that puts a gate in front of an application, outside Gradio's own middleware.

    validator: of the page's calls. inner: further middleware inside the gate. api: the API's application.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        assert app.middleware_stack is not None, "it was made for this call"
        cached = StaticCache(app.middleware_stack)
        behind = inner(cached) if inner else cached
        app.middleware_stack = Gate(behind, policy, validator, api)
        yield

    return lifespan


class Gate:
    """The outermost ASGI middleware."""

    def __init__(
        self, app: ASGIApp, policy: GatePolicy, validator: CallValidator | None = None, api: ASGIApp | None = None
    ) -> None:
        self._app, self._policy, self._validator, self._api = app, policy, validator, api
        self._headers = ResponseHeaders(framed=policy.framed)
        self._arriving = ConcurrencyLimiter(ARRIVING, ARRIVING)
        self._calls, self._streams = (
            ConcurrencyLimiter(CALLS_AT_ONCE, CALLS_INSIDE),
            ConcurrencyLimiter(STREAMS, STREAMS),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope = with_target_as_path(scope)
        if scope["type"] == "http":
            await self._answer(scope, receive, self._with_headers(scope, send))
        elif self._policy.routes.kind("GET", scope["path"]) == "api" and self._api:
            await self._pass_to_api(self._api, scope, receive, send)
        else:  # the page opens no websocket
            await send({"type": "websocket.close"})

    async def _pass_to_api(self, api: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        headers, scheme = Headers(scope=scope), scope.get("scheme", "http").replace("ws", "http")
        local = is_local_request(scope, headers) and not is_cross_origin(headers, scheme=scheme)
        await api({**scope, IS_LOCAL: local, "path": self._policy.routes.without_root(scope["path"])}, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        kind = self._policy.routes.kind(scope["method"], scope["path"])
        if kind == "api" and self._api:
            await self._pass_to_api(self._api, scope, receive, send)
            return
        refused = self._check(scope, headers, kind)
        if refused is not None or kind is None:
            await (refused or error_response(404, NOTHING, headers))(scope, receive, send)
            return
        scope[IS_LOCAL] = is_local_request(scope, headers)
        kept = [(name, value) for name, value in scope["headers"] if name != b"x-gradio-server"]
        scope["headers"] = with_chosen_language(kept)
        try:
            await self._forward(kind, client_address(HTTPConnection(scope)), scope, receive, send)
        except TooManyCalls:
            await error_response(429, CROWDED, headers, {"Retry-After": "1"})(scope, receive, send)
        except CallRejected as error:
            await error_response(error.status, str(error), headers)(scope, receive, send)
        except BodyRejected as error:
            await error_response(error.status, str(error), headers, {"Connection": "close"})(scope, receive, send)
        except Disconnected:
            return

    def _check(self, scope: Scope, headers: Headers, kind: RouteKind | None) -> Response | None:
        """Return the response to a refused request, None for an accepted one."""
        policy = self._policy
        names = [*headers.getlist("host"), *headers.getlist("x-forwarded-host")]
        if len(headers.getlist("host")) != 1 or not all(name.partition(",")[0] in policy.hosts for name in names):
            return error_response(421, UNKNOWN_HOST, headers)
        if kind is None:
            return error_response(404, NOTHING, headers)
        visit = kind in ("page", "hub_sign_in") and is_navigation(scope["method"], headers, framed=policy.framed)
        if kind != "file" and not visit and is_cross_origin(headers, scheme=scope.get("scheme", "http")):
            return error_response(403, FOREIGN, headers)
        if kind == "start" and not is_local_request(scope, headers):
            return error_response(404, NOTHING, headers)
        if policy.token is None or kind in _OPEN_KINDS:
            return None
        return self._check_token(policy.token, scope, headers, kind)

    def _check_token(self, token: StartupToken, scope: Scope, headers: Headers, kind: RouteKind) -> Response | None:
        """Check the start-up token. Return None if the browser's cookie is valid, else the response."""
        asked = QueryParams(scope["query_string"])
        if kind == "page" and token.matches(asked.get(TOKEN_PARAMETER, "")):
            rest = [(name, value) for name, value in asked.multi_items() if name != TOKEN_PARAMETER]
            answer = RedirectResponse(f"?{QueryParams(rest)}" if rest else "./", 303, {"Cache-Control": "no-store"})
            answer.set_cookie(**token.cookie(scope))
            return answer
        if token.admits(scope):
            return None
        if kind != "page":
            return error_response(401, LOCKED, headers)
        return HTMLResponse(self._policy.locked_page(headers), 401, {"Cache-Control": "no-store"})

    async def _forward(self, kind: RouteKind, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        match kind:
            case "call":
                headers = Headers(scope=scope)
                async with self._arriving.enter(address):
                    body = await _json(headers, receive)
                if self._validator:
                    self._validator.check(scope["path"], body, headers.get(page_version.HEADER))
                async with self._calls.enter(address):  # slow bodies do not occupy a slot
                    await self._app(scope, replay_body(body, receive), send)
            case "stream":
                async with self._streams.enter(address):
                    ended = self._validator.session_not_found(scope) if self._validator else None
                    await (ended or self._app)(scope, receive, send)
            case "hub_sign_in":
                await answer_sign_in(self._app, scope, receive, send)
            case "page" if self._policy.token:
                await self._app(scope, receive, _with_cookie(send, self._policy.token.cookie(scope)))
            case _:
                await self._app(scope, receive, send)

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        request = Headers(scope=scope)
        encrypted = browser_scheme(request, scope.get("scheme", "http")) == "https"
        # Browsers treat such a page as a secure context.
        trusted = encrypted or is_loopback(request.get("host", ""))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                self._headers.apply(MutableHeaders(scope=message), encrypted=encrypted, trusted=trusted)
            await send(message)

        return send_with_headers


async def _json(headers: Headers, receive: Receive) -> bytes:
    """Read the body of a call. Raises BodyRejected, Disconnected."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BodyRejected(415, NOT_JSON)
    return await read_body(headers, receive)


def _with_cookie(send: Send, cookie: Mapping[str, Any]) -> Send:
    """Add a cookie to the response. cookie: arguments for `Response.set_cookie`."""
    setting = Response()
    setting.set_cookie(**cookie)

    async def send_with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("set-cookie", setting.headers["set-cookie"])
        await send(message)

    return send_with_cookie
