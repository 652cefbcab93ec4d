"""New voice, as it is seen: what the other tabs show of a recording, what fits on a phone, and what Save answers."""

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from storage import Storage
from tests.fake_engine import FakeEngine
from tests.paths import CLIP
from tests.web.visiting import open_tab, visit

Serve = Callable[..., str]
STORY = CLIP.with_name("flite_slt_story.flac")
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 800}


def begin_recording(page: Page) -> None:
    open_tab(page, "New voice")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator(".rp-say")).to_contain_text("Recording 1.")


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


def test_the_other_tabs_show_that_the_microphone_is_open_and_it_records_on(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine
) -> None:
    with visit(chromium, serve(engine, storage)) as page:
        begin_recording(page)
        page.get_by_role("tab", name="Speak", exact=True).click()
        expect(page.get_by_role("tab", name="Recording: New voice")).to_be_visible()
        dot = page.locator("#rp-tab-new-button").evaluate("(tab) => getComputedStyle(tab, '::before').backgroundColor")
        assert dot == "rgb(200, 56, 42)"
        page.keyboard.press("Escape")  # is for this tab
        page.get_by_role("tab", name="New voice").click()
        expect(page.locator(".rp-say")).to_contain_text(re.compile("^Recording [2-9]"))
        page.get_by_role("button", name="Stop", exact=True).first.click()
        expect(page.locator(".rp-say")).to_contain_text("Recorded ")
        expect(page.get_by_role("tab", name="New voice", exact=True)).to_be_visible()


def test_on_a_phone_all_that_recording_needs_is_in_sight(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine
) -> None:
    needed = [".rp-script-text", ".rp-record", ".rp-levels", ".rp-say"]
    with visit(chromium, serve(engine, storage), viewport=PHONE) as page:
        begin_recording(page)
        in_sight(page, *needed)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        page.locator("#rp-save").scroll_into_view_if_needed()
        page.get_by_role("button", name="Record again").click()
        expect(page.locator(".rp-say")).to_contain_text("Recording 0.")
        in_sight(page, *needed)
        page.get_by_role("button", name="Stop", exact=True).first.click()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_what_is_missing_is_seen_at_once_and_the_keyboard_is_where_it_begins(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine, size: dict[str, int]
) -> None:
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
        page.keyboard.insert_text("The long one.")
        expect(page.get_by_text("too few words")).to_be_visible()  # what arrives later would move the notice
        save.click()
        expect(page.get_by_role("checkbox", name=re.compile("^I am Anna"))).to_be_focused()
        in_sight(page, "#rp-form-notice .rp-bad")


def test_saving_is_seen_and_then_there_is_a_text_to_write(
    chromium: Browser, serve: Serve, storage: Storage, engine: FakeEngine
) -> None:
    allowed = Event()
    encode = engine.encode_voice

    def waiting(*given: Any, **more: Any) -> Any:
        allowed.wait()
        return encode(*given, **more)

    engine.encode_voice = waiting  # type: ignore[method-assign]
    with visit(chromium, serve(engine, storage), viewport=DESKTOP) as page:
        open_tab(page, "New voice")
        upload(page, CLIP)
        page.get_by_label("The words in this clip").fill("Hello there.")
        page.get_by_label("Name of the voice").fill("Anna")
        page.get_by_role("checkbox", name=re.compile("^I am Anna")).check()
        page.locator("#rp-save").click()
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
