"""New voice, as it is seen: what the other tabs show of a recording, what fits on a phone, and what Save answers."""

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

from storage import Storage
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine
from tests.web.visiting import begin_recording, open_tab, recorded_for, skip_countdown, visit

Serve = Callable[..., str]
STORY = CLIP.with_name("flite_slt_story.flac")
PHONE = ViewportSize(width=390, height=844)
DESKTOP = ViewportSize(width=1280, height=800)


def upload(page: Page, *files: Path) -> None:
    page.locator(".rp-file").set_input_files(files)
    expect(page.locator(".rp-say")).to_contain_text(f"{files[-1].name} is ready.")


IN_SIGHT = """(selectors) => {
    const player = document.querySelector("#rp-dock").getBoundingClientRect();
    return selectors.every((selector) => {
        const { top, bottom, height } = document.querySelector(selector)?.getBoundingClientRect() ?? {};
        return height > 0 && top >= 0 && bottom <= player.top;
    });
}"""


def in_sight(page: Page, *selectors: str) -> None:
    """All of these are in the window, and not under the player, soon."""
    page.wait_for_function(IN_SIGHT, arg=selectors)


def test_the_other_tabs_show_that_it_records_and_on_a_phone_all_that_this_needs_is_in_sight(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine
) -> None:
    needed = [".rp-script-text", ".rp-record", ".rp-levels", ".rp-say"]
    with visit(chromium, serve(engine, storage), clock=True, viewport=DESKTOP) as page:
        open_tab(page, "New voice")
        begin_recording(page)
        page.get_by_role("tab", name="Speak", exact=True).click()
        expect(page.get_by_role("tab", name="Recording: New voice")).to_be_visible()
        dot = page.locator("#rp-tab-new-button").evaluate("(tab) => getComputedStyle(tab, '::before').backgroundColor")
        assert dot == "rgb(200, 56, 42)"
        page.keyboard.press("Escape")  # is for this tab
        page.get_by_role("tab", name="New voice").click()
        before = float(page.locator(".rp-say").inner_text().split()[1])
        recorded_for(page, int(10 * before) + 3)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        expect(page.locator(".rp-say")).to_contain_text("Recorded ")
        expect(page.get_by_role("tab", name="New voice", exact=True)).to_be_visible()

        page.get_by_role("button", name=re.compile("^Remove")).click()
        page.set_viewport_size(PHONE)
        page.evaluate("scrollTo(0, 0)")
        begin_recording(page)
        in_sight(page, *needed)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        page.locator("#rp-save").scroll_into_view_if_needed()
        page.get_by_role("button", name="Record again").click()
        skip_countdown(page)
        recorded_for(page, 0)
        in_sight(page, *needed)
        page.get_by_role("button", name="Stop", exact=True).first.click()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_what_is_missing_is_seen_at_once_and_so_is_saving(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine, size: ViewportSize
) -> None:
    """The keyboard is where what is missing begins, and at last where the text to speak is written."""
    allowed = Event()
    encode = engine.encode_voice

    def waiting(*given: Any, **more: Any) -> Any:
        allowed.wait()
        return encode(*given, **more)

    engine.encode_voice = waiting  # type: ignore[method-assign]
    with visit(chromium, serve(engine, storage), viewport=size) as page:
        open_tab(page, "New voice")
        save, notice = page.locator("#rp-save"), page.locator("#rp-form-notice .rp-bad")
        save.click()
        expect(notice.get_by_role("listitem")).to_have_count(3)
        expect(page.locator(".rp-record")).to_be_focused()
        in_sight(page, "#rp-form-notice .rp-bad", "#rp-save")

        upload(page, STORY, CLIP)
        expect(notice).to_be_hidden()
        page.get_by_label("The words in this clip").fill("The short one.")
        page.get_by_label("Name of the voice").fill("Anna")
        save.click()
        expect(notice).to_contain_text("“flite_slt_story.flac”")
        first = page.get_by_role("button", name=re.compile("^flite_slt_story.flac"))
        expect(first).to_be_focused()
        first.press("Enter")
        save.click()
        expect(page.get_by_label("The words in this clip")).to_be_focused()
        held: list[Route] = []
        page.route("**/component_server/**", lambda route: held.append(route))
        page.keyboard.insert_text("The long one.")
        while not held:
            page.wait_for_timeout(20)
        save.click()
        expect(page.get_by_role("checkbox", name=re.compile("^I am Anna"))).to_be_focused()
        in_sight(page, "#rp-form-notice .rp-bad")
        for route in held:
            route.continue_()
        page.unroute_all()
        expect(page.get_by_text("too few words")).to_be_visible()  # which moves the notice
        in_sight(page, "#rp-form-notice .rp-bad")

        page.get_by_role("checkbox", name=re.compile("^I am Anna")).check()
        save.click()
        expect(page.locator(".rp-steps [aria-current]")).to_have_text("Encoding the voice")
        try:
            in_sight(page, ".rp-steps")
        finally:
            allowed.set()
        expect(page.locator("#rp-text textarea")).to_be_focused()
        said = page.locator("#rp-speak-notice")
        expect(said).to_contain_text("Saved")
        page.keyboard.type("Good morning.")
        expect(said).to_be_hidden()  # it has been read
