"""All tabs, on small and large screens, light and dark: no sideways scrolling and no accessibility violations."""

from collections.abc import Callable

from playwright.sync_api import Browser, Page, ViewportSize, expect

from storage import Storage
from storage.voices.samples import install_samples
from tests.support.fake_engine import FakeEngine, voice
from tests.web.visiting import SERIOUS, open_tab, picker, violations, visit

Serve = Callable[..., str]
TABS = ["Speak", "New voice", "Library", "Script", "History", "Status"]
PHONE, TABLET, LAPTOP, DESKTOP = (
    ViewportSize(width=390, height=844),
    ViewportSize(width=820, height=1180),
    ViewportSize(width=1280, height=800),
    ViewportSize(width=1920, height=1080),
)


def reach_hidden_tab_by_keyboard(page: Page) -> None:
    open_tab(page, "Speak")
    page.get_by_role("button", name="More tabs").press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator(".overflow-dropdown").get_by_role("button", name="Script", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Script", exact=True)).to_have_attribute("aria-selected", "true")


def check_every_tab(page: Page, sizes: tuple[ViewportSize, ...], axe: tuple[ViewportSize, ...], *rules: str) -> None:
    """Open each tab once; check its width at each of `sizes`, and its accessibility at the sizes in `axe`."""
    for tab in TABS:
        open_tab(page, tab)
        for size in sizes:
            page.set_viewport_size(size)
            width, room = page.evaluate("[document.scrollingElement.scrollWidth, window.innerWidth]")
            assert width <= room, (tab, size["width"])
            if size in axe:
                assert violations(page, impacts=SERIOUS, rules=rules) == [], (tab, size["width"])


def test_tabs_fit_the_screen_without_accessibility_violations(
    chromium: Browser, serve: Serve, engine: FakeEngine, storage: Storage
) -> None:
    install_samples(storage.voices)
    storage.voices.add(voice("A voice with a rather long name, as people give them"))
    url = serve(engine, storage)
    with visit(chromium, f"{url}?__theme=light", viewport=PHONE, color_scheme="light") as page:
        expect(picker(page)).not_to_have_value("")
        reach_hidden_tab_by_keyboard(page)
        check_every_tab(page, (TABLET, LAPTOP, DESKTOP, PHONE), (DESKTOP, PHONE))
    with visit(chromium, f"{url}?__theme=dark", viewport=DESKTOP, color_scheme="dark") as page:
        expect(picker(page)).not_to_have_value("")
        check_every_tab(page, (PHONE, DESKTOP), (DESKTOP,), "color-contrast")  # a theme changes nothing else
