"""A visit fails on requests to other servers."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser

from storage import Storage
from tests.support.fake_engine import FakeEngine
from tests.web.visiting import visit


def test_visit_fails_on_requests_to_other_servers(
    serve: Callable[..., str], storage: Storage, chromium: Browser
) -> None:
    url = serve(FakeEngine(), storage)
    with (
        pytest.raises(AssertionError, match="pictures"),
        visit(chromium, url) as page,
        page.expect_event("console"),
    ):
        page.evaluate("() => { new Image().src = 'https://pictures.example/1.png' }")
