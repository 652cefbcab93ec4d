"""Signing in with Hugging Face that is cancelled, or fails."""

import logging

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from web.http.gate import Gate, GatePolicy
from web.http.hosts import AllowedHosts
from web.http.routes import AllowedRoutes
from web.identity.hub_sign_in import FAILED


async def _to_hub(_request: Request) -> Response:
    raise OSError("Name or service not known")


async def _callback(request: Request) -> Response:
    if "error" in request.query_params:
        raise ValueError(request.query_params["error"])
    return RedirectResponse("/")


async def _page(_request: Request) -> Response:
    return PlainTextResponse("the page")


@pytest.fixture
def visitor() -> TestClient:
    routes = [
        Route("/", _page),
        Route("/login/huggingface", _to_hub),
        Route("/login/callback", _callback),
    ]
    gate = Gate(Starlette(routes=routes), GatePolicy(AllowedHosts("127.0.0.1"), AllowedRoutes(hub=True)))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await gate(scope, receive, send)

    navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    return TestClient(app, base_url="http://127.0.0.1", headers=navigation)


@pytest.mark.parametrize("query", ["?code=1&state=2", "?error=access_denied&error_description=Cancelled&state=2"])
def test_signing_in_and_cancelling_lead_to_the_page(visitor: TestClient, query: str) -> None:
    answer = visitor.get(f"/login/callback{query}")
    assert (answer.status_code, answer.text, answer.url.path) == (200, "the page", "/")


@pytest.mark.parametrize("path", ["/login/huggingface", "/login/callback?error=server_error"])
def test_failure_is_one_sentence(visitor: TestClient, path: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "web.identity"):
        answer = visitor.get(path, headers={"Accept": "text/html"})
    assert (answer.status_code, answer.text) == (502, FAILED)
    (logged,) = caplog.messages
    assert FAILED in logged
