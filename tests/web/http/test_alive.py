"""How a page finds out what its server is."""

from collections.abc import Callable

import httpx

from storage import Storage
from tests.fake_engine import FakeEngine


def test_another_process_is_told_from_another_page(
    serve: Callable[..., str], engine: FakeEngine, storage: Storage
) -> None:
    first, second = (serve(engine, storage, mode).partition("?")[0] for mode in ("local", "machine"))
    answers = [httpx.get(url + "reprise/alive") for url in (first, first, second)]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    one, again, other = (answer.json() for answer in answers)
    assert one == again
    assert one["process"] != other["process"]
    assert one["page"] == other["page"], "the same version: a page can go on with it"
    assert one["admitted"] is True, "without a token too: it says nothing of anybody"
