"""How a page finds out what its server is."""

from collections.abc import Callable

import httpx
from starlette.applications import Starlette
from starlette.testclient import TestClient

from storage import Storage
from tests.support.fake_engine import FakeEngine
from web.http.alive import PATH, AliveEndpoint

CONFIG = {"dependencies": [{"id": 0, "targets": [[1, "click"]], "inputs": [2], "outputs": [3], "queue": False}]}
MORE = {"dependencies": [*CONFIG["dependencies"], {"id": 1, "targets": [], "inputs": [], "outputs": []}]}


def answer(endpoint: AliveEndpoint) -> dict[str, object]:
    app = Starlette(routes=endpoint.routes())
    app.auth = None  # type: ignore[attr-defined]  # as on Gradio's application
    found: dict[str, object] = TestClient(app).get(PATH).json()
    return found


def test_another_process_is_told_from_another_page() -> None:
    first, other = AliveEndpoint(CONFIG, "scripts"), AliveEndpoint(CONFIG, "scripts")
    assert answer(first) == answer(first)
    assert answer(first)["process"] != answer(other)["process"]
    assert answer(first)["page"] == answer(other)["page"], "the same version: a page can go on with it"
    for changed in (AliveEndpoint(MORE, "scripts"), AliveEndpoint(CONFIG, "others")):
        assert answer(changed)["page"] != answer(first)["page"]


def test_it_answers_without_a_token_and_is_never_kept(
    serve: Callable[..., str], engine: FakeEngine, storage: Storage
) -> None:
    found = httpx.get(serve(engine, storage, "machine").partition("?")[0] + PATH.lstrip("/"))
    assert found.headers["cache-control"] == "no-store"
    assert found.json().keys() == {"process", "page", "admitted"}
