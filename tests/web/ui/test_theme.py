"""Every tab, on a phone and on a large screen, light and dark: nothing to scroll sideways, nothing axe objects to."""

from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from storage import Storage
from storage.samples import install_samples
from tests.fake_engine import FakeEngine, voice
from tests.web.visiting import open_tab, picker, visit

Serve = Callable[..., str]
TABS = ["Speak", "New voice", "Library", "Script", "History", "Status"]
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1920, 1080)}
SERIOUS = ("serious", "critical")


@pytest.fixture
def url(serve: Serve, engine: FakeEngine, storage: Storage) -> str:
    install_samples(storage.voices)
    storage.voices.add(voice("A voice with a rather long name, as people give them"))
    return serve(engine, storage)


def visited(chromium: Browser, url: str, size: str, theme: str) -> Iterator[Page]:
    width, height = SIZES[size]
    shape = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
    with visit(chromium, f"{url}?__theme={theme}", **shape) as page:
        expect(picker(page)).not_to_have_value("")
        for tab in TABS:
            open_tab(page, tab)
            yield page


@pytest.mark.parametrize("size", SIZES)
def test_no_tab_scrolls_sideways(chromium: Browser, url: str, size: str) -> None:
    for page, tab in zip(visited(chromium, url, size, "light"), TABS, strict=True):
        width, room = page.evaluate("[document.scrollingElement.scrollWidth, window.innerWidth]")
        assert width <= room, tab


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium: Browser, url: str, theme: str) -> None:
    for page, tab in zip(visited(chromium, url, "desktop", theme), TABS, strict=True):
        found = Axe().run(page).response["violations"]
        serious = [
            (violation["id"], node["html"][:200], node.get("failureSummary"))
            for violation in found
            if violation["impact"] in SERIOUS
            for node in violation["nodes"]
        ]
        assert serious == [], tab
