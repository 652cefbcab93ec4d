"""New voice in a browser: the tab's recording mark, the layout on a phone, and the messages of Save."""

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
from tests.web.visiting import begin_recording, open_tab, skip_countdown, visit, wait_for_recording

Serve = Callable[..., str]
STORY = CLIP.with_name("flite_slt_story.flac")
PHONE = ViewportSize(width=390, height=844)
DESKTOP = ViewportSize(width=1280, height=800)


def upload(page: Page, *files: Path) -> None:
    page.locator(".rp-file").set_input_files(files)
    expect(page.locator(".rp-say")).to_contain_text(f"{files[-1].name} is ready.")


IN_VIEW = """(selectors) => {
    const player = document.querySelector("#rp-dock").getBoundingClientRect();
    return selectors.every((selector) => {
        const { top, bottom, height } = document.querySelector(selector)?.getBoundingClientRect() ?? {};
        return height > 0 && top >= 0 && bottom <= player.top;
    });
}"""


def wait_until_in_view(page: Page, *selectors: str) -> None:
    """Wait until all selectors are in the window and not under the player."""
    page.wait_for_function(IN_VIEW, arg=selectors)


def test_tab_shows_a_recording_and_a_phone_fits_its_controls(
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
        page.keyboard.press("Escape")  # acts on the current tab only
        page.get_by_role("tab", name="New voice").click()
        before = float(page.locator(".rp-say").inner_text().split()[1])
        wait_for_recording(page, int(10 * before) + 3)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        expect(page.locator(".rp-say")).to_contain_text("Recorded ")
        expect(page.get_by_role("tab", name="New voice", exact=True)).to_be_visible()

        page.get_by_role("button", name=re.compile("^Remove")).click()
        page.set_viewport_size(PHONE)
        page.evaluate("scrollTo(0, 0)")
        begin_recording(page)
        wait_until_in_view(page, *needed)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        page.locator("#rp-save").scroll_into_view_if_needed()
        page.get_by_role("button", name="Record again").click()
        skip_countdown(page)
        wait_for_recording(page, 0)
        wait_until_in_view(page, *needed)
        page.get_by_role("button", name="Stop", exact=True).first.click()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_missing_fields_and_saving_progress_are_in_view(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine, size: ViewportSize
) -> None:
    """Focus moves to the first missing field, and after saving to the text to speak."""
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
        wait_until_in_view(page, "#rp-form-notice .rp-bad", "#rp-save")

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
        wait_until_in_view(page, "#rp-form-notice .rp-bad")
        for route in held:
            route.continue_()
        page.unroute_all()
        expect(page.get_by_text("too few words")).to_be_visible()  # this moves the notice
        wait_until_in_view(page, "#rp-form-notice .rp-bad")

        page.get_by_role("checkbox", name=re.compile("^I am Anna")).check()
        save.click()
        expect(page.locator(".rp-steps [aria-current]")).to_have_text("Encoding the voice")
        try:
            wait_until_in_view(page, ".rp-steps")
        finally:
            allowed.set()
        expect(page.locator("#rp-text textarea")).to_be_focused()
        said = page.locator("#rp-speak-notice")
        expect(said).to_contain_text("Saved")
        page.keyboard.type("Good morning.")
        expect(said).to_be_hidden()  # typing hides the notice
