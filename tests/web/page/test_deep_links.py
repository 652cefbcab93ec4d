"""Deep links open a voice, take or script for its owner only, and a reload keeps it open."""

from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from storage import Storage
from tests.storage.speaking import card, spoken
from tests.support.fake_engine import FakeEngine, voice
from tests.web.visiting import visit

Serve = Callable[..., str]
NOBODY = "0" * 32


def expect_tab(page: Page, tab: str) -> None:
    expect(page.get_by_role("tab", name=tab, exact=True)).to_have_attribute("aria-selected", "true")


def test_deep_links_open_their_target_or_report_it_missing(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine
) -> None:
    for name in ("Anna", "Ben"):
        storage.voices.add(voice(name))
    ben = storage.voices.find("Ben").id
    take = storage.history.add(spoken("A take that is kept.", voice_id=ben))
    assert take is not None
    script = storage.scripts.create("A Play", [card("Hello there.")]).id
    url = serve(engine, storage)
    with visit(chromium, f"{url}?voice={ben}") as page:
        expect(page.locator(".rp-card-name")).to_have_text("Ben")
        expect_tab(page, "Speak")
        assert "voice=" not in page.url
        page.goto(f"{url}?script={script}")
        expect(page.get_by_label("Name of the script")).to_have_value("A Play")
        expect_tab(page, "Script")
        page.get_by_role("button", name="All scripts").click()
        page.get_by_role("button", name="Copy link: A Play").click()
        expect(page.locator(".rp-link-notice")).to_have_text(
            "The link is copied. It works for you; nobody else can see what it opens."
        )
        page.get_by_label("Text of the new script").fill("Hello.")
        page.get_by_role("button", name="Make cards").click()
        expect(page.get_by_label("Name of the script")).to_have_value("Hello.")
        expect(page.locator(".rp-link-notice")).to_have_count(0)
        page.goto(f"{url}?take={take.id}")
        expect(page.locator(".rp-take-text")).to_have_text("A take that is kept.")
        expect_tab(page, "Speak")
        for kind in ("voice", "take", "script"):
            page.goto(f"{url}?{kind}={NOBODY}")
            expect(page.locator(".rp-link-notice")).to_contain_text(f"The {kind} of this link is not among yours")
        expect(page.get_by_role("button", name="Make cards")).to_be_visible()
