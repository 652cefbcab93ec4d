"""The endpoint that identifies the server's process and page version."""

from collections.abc import Callable

import httpx
from starlette.applications import Starlette
from starlette.testclient import TestClient

from storage import Storage
from tests.support.fake_engine import FakeEngine
from tests.web.visitor import Visitor
from web.http.alive import PATH, AliveEndpoint


def answer(endpoint: AliveEndpoint) -> dict[str, object]:
    app = Starlette(routes=endpoint.routes())
    app.auth = None  # type: ignore[attr-defined]  # as on Gradio's application
    found: dict[str, object] = TestClient(app).get(PATH).json()
    return found


def test_process_and_page_ids_change_independently() -> None:
    first, other = AliveEndpoint("v1"), AliveEndpoint("v1")
    assert answer(first) == answer(first)
    assert answer(first)["process"] != answer(other)["process"]
    assert answer(first)["page"] == answer(other)["page"] == "v1", "an open page can continue with the same version"


def test_alive_answers_without_token_and_is_not_cached(
    serve: Callable[..., str], engine: FakeEngine, storage: Storage
) -> None:
    link = serve(engine, storage, "machine")
    found = httpx.get(link.partition("?")[0] + PATH.lstrip("/"))
    assert found.headers["cache-control"] == "no-store"
    assert found.json().keys() == {"process", "page", "admitted"}
    assert not found.json()["admitted"], "the gate refuses the other requests of this browser"
    visitor = Visitor(link)
    assert visitor.http.get(PATH.lstrip("/")).json()["admitted"]
