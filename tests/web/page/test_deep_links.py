"""Deep links open a voice, take or script for its owner only, and the page then rests until somebody uses it."""

from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

from storage import Storage
from tests.storage.speaking import card, spoken
from tests.support.fake_engine import FakeEngine, voice
from tests.support.waiting import until
from tests.web.visiting import hold_response, visit

Serve = Callable[..., str]
NOBODY = "0" * 32
COUNT_FRAMES = """{
  const request = window.requestAnimationFrame.bind(window);
  window.framesAsked = 0;
  window.nextFrame = () => new Promise(request);
  window.requestAnimationFrame = (callback) => { window.framesAsked += 1; return request(callback); };
}"""
ASKED_DURING_TEN_FRAMES = """async () => {
  const before = window.framesAsked;
  for (let frame = 0; frame < 10; frame += 1) await window.nextFrame();
  return window.framesAsked - before;
}"""


def expect_tab(page: Page, tab: str) -> None:
    expect(page.get_by_role("tab", name=tab, exact=True)).to_have_attribute("aria-selected", "true")


def expect_no_frames(page: Page) -> None:
    assert page.evaluate("requestAnimationFrame(() => {}), window.framesAsked") > 0, "frames are counted"
    until(lambda: page.evaluate(ASKED_DURING_TEN_FRAMES) == 0)  # the logo's animation ends 3 s after loading


def test_deep_links_open_their_target_or_report_it_missing_and_the_page_rests(
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
        expect(page.locator(".rp-link-notice")).to_have_count(0)
        page.add_init_script(COUNT_FRAMES)
        page.goto(f"{url}?script={script}")
        expect(page.get_by_label("Name of the script")).to_have_value("A Play")
        expect_tab(page, "Script")
        page.get_by_role("button", name="All scripts").click()
        page.get_by_role("button", name="Copy link: A Play").click()
        expect(page.locator(".rp-link-notice")).to_have_text(
            "The link is copied. It works for you; nobody else can see what it opens."
        )
        expect(page.get_by_role("button", name="Copy link: A Play")).to_be_focused()
        page.get_by_label("Text of the new script").fill("Hello.")
        page.get_by_role("button", name="Make cards").click()
        expect(page.get_by_label("Name of the script")).to_have_value("Hello.")
        expect(page.locator(".rp-link-notice")).to_have_count(0)
        text = page.locator("#rp-text textarea")
        with hold_response(page, "A take that is kept.", lambda: page.goto(f"{url}?take={take.id}")):
            text.press("!")
        expect(page.locator(".rp-take-text")).to_have_text("A take that is kept.")
        expect(text).to_be_focused()
        expect(page.locator(".rp-link-notice")).to_have_count(0)
        expect_tab(page, "Speak")
        for kind in ("voice", "take", "script"):
            page.goto(f"{url}?{kind}={NOBODY}")
            expect(page.locator(".rp-link-notice")).to_contain_text(f"The {kind} of this link is not among yours")
        expect(page.get_by_role("button", name="Make cards")).to_be_visible()
        expect_no_frames(page)
        page.context.close()  # another visit must not count frames
