"""A visit fails on requests to other servers."""

import pytest
from playwright.sync_api import Browser

from tests.web.visiting import visit

PAGE = "data:text/html,<button id='rp-speak'>Speak</button>"


def test_visit_fails_on_requests_to_other_servers(chromium: Browser) -> None:
    """Its context is not that of other visits, because it is closed."""
    with (
        pytest.raises(AssertionError, match="ERR_NAME_NOT_RESOLVED"),
        visit(chromium, PAGE, locale="en-US") as page,
        page.expect_event("console"),
    ):
        page.evaluate("() => { new Image().src = 'https://pictures.example/1.png' }")
