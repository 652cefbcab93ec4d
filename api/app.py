"""The API's ASGI application: its operations, protected by keys and limits."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import WebSocketRoute

from api import check, consents, errors, fish, fish_live, models, voices
from api.access import AccessMiddleware, IsLocal, with_security
from api.context import ApiContext
from api.operators import health
from api.operators.metrics import MetricsMiddleware
from api.request_ids import RequestIdMiddleware
from api.speech import batch, create, live, transcription
from engine import __version__
from studio.packages import MCP, has_package

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket

    from studio.context import AppContext

ROUTERS = (
    create.router,
    batch.router,
    fish.router,
    fish_live.router,
    live.router,
    check.router,
    transcription.router,
    models.router,
    voices.router,
    consents.router,
    health.router,
)
OPENAPI = "/v1/openapi.json"
GRADIO = "/v1/gradio"
_JOINED = re.compile(r"//+v1/+|/v1//+")
MCP_PATH = "/mcp"
DESCRIPTION = "Speech in cloned voices: OpenAI's speech operations, with a seed, clips of voices, and more formats."
LICENCE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
TAGS = [
    {"name": "speech", "description": "Speech from texts, and texts and origins of audio files"},
    {"name": "voices", "description": "Saved voices, and the consents of their speakers"},
    {"name": "models", "description": "The loaded model"},
    {"name": "fish", "description": "Operations of Fish Audio's API"},
    {"name": "health", "description": "For those who run the server"},
]


def create_api(app: AppContext, is_local: IsLocal, *, clip_hosts: Iterable[str] = (), root_path: str = "") -> ASGIApp:
    """Create the API's application. Nothing is started: `web.serve` passes it the requests for its paths.

    is_local: whether a request came from a program on this machine, not from another site's page. clip_hosts: names of
    hosts that clips may be fetched from. root_path: the proxy's path or URL, for the OpenAPI document.
    """
    context = ApiContext.create(app, clip_hosts)
    api = FastAPI(
        title="Reprise",
        version=__version__,
        description=DESCRIPTION,
        license_info=LICENCE,
        openapi_tags=TAGS,
        servers=[{"url": root_path or "/"}],
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
    )
    api.state.context = context
    errors.install(api, ROUTERS)
    document = api.openapi
    api.openapi = lambda: with_security(errors.without_validation_errors(document()))  # type: ignore[method-assign]
    for router in ROUTERS:
        api.include_router(router)
    if has_package("mcp", MCP):
        api.add_route(MCP_PATH, _mcp_endpoint(context), methods=["POST"], include_in_schema=False)
    api.mount(GRADIO, _gradio_endpoints(context))
    api.router.routes.append(WebSocketRoute("/{path:path}", _no_web_socket))
    return _with_plain_slashes(
        _head_like_get(
            RequestIdMiddleware(MetricsMiddleware(AccessMiddleware(api, context.access, is_local), context.metrics))
        )
    )


def _with_plain_slashes(app: ASGIApp) -> ASGIApp:
    """Answer a path with a final slash, or with further slashes around /v1, like the path without them.

    Clients join paths to base URLs that end in a slash. A redirect would lose the body with many of them. An encoded
    slash belongs to a name. Gradio has its own paths.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")  # the start and the end of the application have none
        if joined := _JOINED.match(path):
            path = f"/v1/{path[joined.end() :]}"
            scope = {**scope, "path": path}
        if (scope.get("raw_path") or b"").endswith(b"/") and not path.startswith(f"{GRADIO}/"):
            scope = {**scope, "path": path.removesuffix("/")}
        await app(scope, receive, send)

    return answer


def _head_like_get(app: ASGIApp) -> ASGIApp:
    """Answer HEAD like GET, since some programs check with it whether a server responds. uvicorn sends no body then.

    Not below Gradio's path, where GET may stream without end.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") == "HEAD" and not scope["path"].startswith(f"{GRADIO}/"):
            scope = {**scope, "method": "GET"}
        await app(scope, receive, send)

    return answer


def _mcp_endpoint(context: ApiContext) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint for language models, created at the first request: its package takes a second to import."""

    @cache
    def create() -> Callable[[Request], Awaitable[Response]]:
        from api.assistants.mcp import mcp_endpoint

        return mcp_endpoint(context)

    async def mcp(request: Request) -> Response:
        endpoint = await run_in_threadpool(create)
        return await endpoint(request)

    return mcp


def _gradio_endpoints(context: ApiContext) -> ASGIApp:
    """Return the endpoints for `gradio_client`, created at the first request."""

    @cache
    def create() -> ASGIApp:
        from api.gradio_endpoints import create_endpoints

        return create_endpoints(context)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await create()(scope, receive, send)

    return answer


async def _no_web_socket(_socket: WebSocket) -> None:
    """Refuse a path without a web socket. Starlette's response would be 403, as for a wrong key."""
    raise HTTPException(404)
