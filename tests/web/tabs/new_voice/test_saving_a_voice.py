"""New voice in a browser: the way from a recording to its voice, the layout on a phone, and the messages of Save."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import soundfile
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

from storage import Storage, VoiceLibrary
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine
from tests.web.visiting import (
    begin_recording,
    hold_response,
    open_tab,
    picker,
    player,
    refuse_event,
    skip_countdown,
    upload,
    visit,
    wait_for,
    wait_for_recording,
)
from web.limits.worker_pool import WorkerPool
from web.tabs.new_voice.reading_texts import READING_TEXTS

Serve = Callable[..., str]
PHONE = ViewportSize(width=390, height=844)
DESKTOP = ViewportSize(width=1280, height=800)


IN_VIEW = """(selectors) => {
    const player = document.querySelector("#rp-dock").getBoundingClientRect();
    return selectors.every((selector) => {
        const { top, bottom, height } = document.querySelector(selector)?.getBoundingClientRect() ?? {};
        return height > 0 && top >= 0 && bottom <= player.top;
    });
}"""

# What is typed then replaces it.
SUGGESTION_IS_SELECTED = """() => {
    const field = document.activeElement;
    if (!field.matches("#rp-text textarea")) return false;
    return field.value && field.selectionStart === 0 && field.selectionEnd === field.value.length;
}"""


# Notes what is shown at the ends of the events that pick a saved voice.
NOTE_TABS = """() => {
    const { tabToShow } = window.repriseSaved;
    window.repriseSaved.tabToShow = () => (window.tabs = [...(window.tabs ?? []), tabToShow()]).at(-1);
}"""


def wait_until_in_view(page: Page, *selectors: str) -> None:
    """Wait until all selectors are in the window and not under the player."""
    page.wait_for_function(IN_VIEW, arg=selectors)


@contextmanager
def until_ended(monkeypatch: pytest.MonkeyPatch, save: Callable[[], object]) -> Iterator[Event]:
    """Call `save`, which has to wait for the answer; the event of this answer ends when the yielded one is set."""
    ended, steps = Event(), WorkerPool.steps

    async def waiting(*given: Any) -> AsyncIterator[Any]:
        async for step in steps(*given):
            yield step
        await asyncio.to_thread(ended.wait)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(WorkerPool, "steps", waiting)
            save()
        yield ended
    finally:
        ended.set()


def test_recording_becomes_a_voice_that_speaks_and_messages_of_saving_are_in_view(
    chromium: Browser,
    serve: Serve,
    library: VoiceLibrary,
    storage: Storage,
    engine: FakeEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A phone fits the controls of a recording, its tab is marked, and four actions later its voice speaks."""
    needed = [".rp-script-text", ".rp-record", ".rp-levels", ".rp-say"]
    with visit(chromium, serve(engine, storage), clock=True, viewport=PHONE) as page:
        stop, status = page.get_by_role("button", name="Stop", exact=True).first, page.locator(".rp-say")
        open_tab(page, "New voice")
        expect(page.locator(".rp-script-text")).to_have_text(READING_TEXTS[0])
        begin_recording(page)
        wait_until_in_view(page, *needed)
        expect(page.locator(".rp-lamp")).to_be_hidden()  # “Too loud”
        stop.click()
        page.locator("#rp-save").scroll_into_view_if_needed()
        page.get_by_role("button", name="Record again").click()
        skip_countdown(page)
        wait_for_recording(page, 0)
        wait_until_in_view(page, *needed)

        page.set_viewport_size(DESKTOP)
        page.get_by_role("tab", name="Speak", exact=True).click()
        expect(page.get_by_role("tab", name="Recording: New voice")).to_be_visible()
        dot = page.locator("#rp-tab-new-button").evaluate("(tab) => getComputedStyle(tab, '::before').backgroundColor")
        assert dot == "rgb(200, 56, 42)"
        page.keyboard.press("Escape")  # acts on the current tab only
        page.get_by_role("tab", name="New voice").click()
        before = float(status.inner_text().split()[1])
        wait_for_recording(page, max(20, int(10 * before) + 3))
        stop.click()
        expect(status).to_contain_text("Recorded ")
        expect(page.get_by_role("tab", name="New voice", exact=True)).to_be_visible()

        page.get_by_label("Name of the voice").fill("Ada")  # 1
        page.get_by_role("checkbox", name=re.compile("^I am Ada and agree")).check()  # 2
        page.get_by_role("button", name="Save voice").click()  # 3
        expect(page.get_by_role("tab", name="Speak")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Ada”.")
        expect(picker(page)).to_have_value("Ada")
        page.wait_for_function(SUGGESTION_IS_SELECTED, polling=100)
        engine.script.pace = 0.9
        page.get_by_role("button", name="Speak", exact=True).click()  # 4
        wait_for(page, "player.played > 0")
        expect(page.locator("#rp-speak-notice")).to_be_empty()
        assert not player(page)["finished"]
        engine.script.pace = 0

        made = library.load(library.find("Ada").id)
        assert made.references[0].transcript == READING_TEXTS[0], "the transcript is the text that was read"
        assert made.consent is not None
        assert made.consent.sentence.startswith("I am Ada and agree")
        assert engine.asked[0][1] == made

        open_tab(page, "New voice")
        expect(page.locator(".rp-clips")).to_be_hidden()
        expect(page.get_by_label("Name of the voice")).to_have_value("")
        expect(page.get_by_role("checkbox", name=re.compile("^I am … and agree"))).not_to_be_checked()
        change_the_clips(page, library)

        page.set_viewport_size(PHONE)
        open_tab(page, "Speak")
        check_messages_and_progress(page, engine, library, tmp_path, monkeypatch)
    assert library.find("Anna 2").duration > 2


def change_the_clips(page: Page, library: VoiceLibrary) -> None:
    """Change the clips of Ada after a reload, save one, and leave the form in both other ways."""
    record, lines = library.find("Ada"), page.locator(".rp-clip-line")
    words, name = page.get_by_label("The words in this clip"), page.get_by_label("Name of the voice")
    note = page.locator("#rp-changed-voice")

    def open_clips() -> None:
        open_tab(page, "Library")
        page.get_by_role("button", name="Change the clips of Ada").click()
        expect(lines).to_have_count(1)

    open_clips()
    expect(note.get_by_text("These are the clips of “Ada”.")).to_be_focused()
    page.once("dialog", lambda dialog: dialog.accept())  # the clips are unsaved
    page.reload()
    expect(note.get_by_text("These are the clips of “Ada”.")).to_be_visible()
    expect(words).to_have_value(READING_TEXTS[0])
    start = page.get_by_role("slider", name="Start")
    start.press("Shift+ArrowRight")
    start.blur()  # at once, because it redraws the line
    expect(lines).to_contain_text(" of ")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download clip: Ada").press("Enter")
    assert download.value.suggested_filename == "Ada.wav"
    assert soundfile.info(download.value.path()).duration == pytest.approx(record.duration - 0.1, abs=0.01)
    words.fill("Other words.")
    page.get_by_role("checkbox", name=re.compile("^I am Ada and agree")).check()
    page.get_by_role("button", name="Save voice").press("Enter")
    expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Ada”.")
    assert library.load(record.id).references[0].transcript == "Other words."
    open_tab(page, "New voice")
    expect(note).to_be_hidden()
    expect(lines).to_have_count(0)

    open_clips()
    expect(words).to_have_value("Other words.")
    page.get_by_role("button", name="Make a new voice instead").click()
    expect(note).to_be_hidden()
    expect(name).to_be_focused()
    expect(lines).to_have_count(1)
    open_tab(page, "Library")

    def change() -> None:
        page.once("dialog", lambda dialog: dialog.accept())  # what is added before they arrive is not replaced
        page.get_by_role("button", name="Change the clips of Ada").click()

    with refuse_event(page, record.id, change):
        open_tab(page, "Library")
    with hold_response(page, '"clips"', change):
        upload(page, CLIP)
        name.fill("Ida")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text(CLIP.name)
    expect(note).to_be_visible()
    expect(name).to_have_value("Ida")
    expect(name).to_be_focused()
    note.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("tab", name="Library")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tab", name="Library")).to_be_focused()
    open_tab(page, "New voice")
    expect(lines).to_have_count(0)
    expect(name).to_have_value("")


def check_messages_and_progress(
    page: Page, engine: FakeEngine, library: VoiceLibrary, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing fields, taken names and the progress of saving are in view.

    Focus moves to the first missing field, and after saving to the text to speak, unless something else was done
    meanwhile. Save can be pressed as soon as a refusal is shown.
    """
    allowed = Event()
    encode = engine.encode_voice

    def waiting(*given: Any, **more: Any) -> Any:
        allowed.wait()
        return encode(*given, **more)

    engine.encode_voice = waiting  # type: ignore[method-assign]
    other = folder / "other.flac"
    other.write_bytes(CLIP.read_bytes())
    save, notice = page.locator("#rp-save"), page.locator("#rp-form-notice .rp-bad")
    words, name = page.get_by_label("The words in this clip"), page.get_by_label("Name of the voice")
    agreed = page.get_by_role("checkbox", name=re.compile("^I am Anna"))

    def save_all(meanwhile: Callable[[], object] = lambda: None, *, press: Callable[[], object] = save.click) -> None:
        allowed.clear()
        press()
        expect(page.locator(".rp-steps [aria-current]")).to_have_text("Encoding the voice")
        try:
            wait_until_in_view(page, ".rp-steps")
            meanwhile()
        finally:
            allowed.set()
        expect(page.locator(".rp-steps")).to_be_hidden()

    open_tab(page, "New voice")
    save.click()
    expect(notice.get_by_role("listitem")).to_have_count(3)
    expect(page.locator(".rp-record")).to_be_focused()
    wait_until_in_view(page, "#rp-form-notice .rp-bad", "#rp-save")
    upload(page, other, CLIP)
    expect(notice).to_be_hidden()
    words.fill("The second one.")
    name.fill("Anna")
    save.click()
    expect(notice).to_contain_text("“other.flac”")
    first = page.get_by_role("button", name=re.compile("^other.flac"))
    expect(first).to_be_focused()
    first.press("Enter")
    save.click()
    expect(words).to_be_focused()
    held: list[Route] = []

    def hold_check(route: Route) -> None:
        held.append(route) if "check_words" in (route.request.post_data or "") else route.continue_()

    page.route("**/component_server/**", hold_check)
    page.keyboard.insert_text("One.")
    while not held:
        page.wait_for_timeout(20)

    def save_without_consent() -> None:
        save.click()
        expect(agreed).to_be_focused()

    def press_before(ended: Event) -> None:
        save.click()
        ended.set()

    with until_ended(monkeypatch, save_without_consent) as ended:
        wait_until_in_view(page, "#rp-form-notice .rp-bad")
        for route in held:
            route.continue_()
        page.unroute_all()
        expect(page.get_by_text("too few words")).to_be_visible()  # this moves the notice
        wait_until_in_view(page, "#rp-form-notice .rp-bad")
        agreed.check()
        save_all(press=lambda: press_before(ended))
    saved_notice, offer = page.locator("#rp-speak-notice"), page.locator("#rp-saved-voice")
    expect(page.locator("#rp-text textarea")).to_be_focused()
    expect(saved_notice).to_contain_text("Saved “Anna”.")
    expect(offer).to_be_hidden()
    page.keyboard.insert_text("Good morning.")
    expect(saved_notice).to_be_hidden()  # typing, and pasting as here, hides the notice

    page.set_viewport_size(DESKTOP)
    open_tab(page, "New voice")
    with page.expect_response("**/gradio_api/upload**") as sent:
        upload(page, CLIP)
    Path(sent.value.json()[0]).unlink()  # as after hours in which the device was asleep
    words.fill("Hello there.")
    name.fill("anna")
    page.get_by_label("has agreed that I may clone it").check()
    save.click()
    expect(page.locator("#rp-form-notice")).to_contain_text("There is already a voice called “Anna”.")
    wait_until_in_view(page, "#rp-form-notice .rp-bad")
    expect(words).to_have_value("Hello there.")
    expect(page.locator(".rp-clip-line")).to_have_count(1)
    name.fill("Anna 2")  # as pasted text
    expect(notice).to_be_hidden()

    def begin_next() -> None:
        upload(page, other)
        name.fill("Ben")
        save.evaluate("(button) => button.addEventListener('click', () => (window.pressed = true))")
        save.press("Enter")
        assert not page.evaluate("window.pressed"), "one voice is saved at a time"

    save_all(begin_next)
    expect(offer).to_contain_text("Saved “Anna 2”.")
    expect(save).to_be_focused()
    expect(picker(page)).to_have_value("Anna")
    expect(page.locator(".rp-clip-line")).to_have_count(1)
    expect(page.locator(".rp-clip-line")).to_contain_text("other.flac")
    expect(name).to_have_value("Ben")
    ben = page.get_by_role("checkbox", name=re.compile("^I am Ben and agree"))
    expect(ben).not_to_be_checked()

    page.evaluate(NOTE_TABS)
    use = offer.get_by_role("button", name="Use this voice")
    picked = f'"value":"{library.find("Anna 2").id}"'  # in that answer only, not in lists of the voices
    with hold_response(page, picked, partial(use.press, "Enter")):
        words.fill("Hello again.")
    page.wait_for_function("window.tabs", polling=50)
    assert page.evaluate("window.tabs") == [{"__type__": "update"}], "nobody is taken from what they write"
    expect(picker(page)).to_have_value("Anna 2")
    expect(words).to_be_focused()

    def change_clips() -> None:
        open_tab(page, "Library")
        page.once("dialog", lambda dialog: dialog.accept())  # the clips are replaced
        page.get_by_role("button", name="Change the clips of Anna", exact=True).click()
        expect(page.locator("#rp-changed-voice")).to_contain_text("Anna")
        page.evaluate("window.pressed = false")
        save.press("Enter")
        assert not page.evaluate("window.pressed"), "one voice is saved at a time, also without its notice"

    ben.check()
    save_all(change_clips)
    expect(offer).to_contain_text("Saved “Ben”.")
    expect(page.locator("#rp-changed-voice")).to_contain_text("Anna")
    expect(page.locator(".rp-clip-line")).to_have_count(1)
    expect(name).to_have_value("Anna")
    open_tab(page, "History")
    with refuse_event(page, library.find("Ben").id, lambda: use.press("Enter")):
        expect(offer).to_be_hidden()
    expect(page.get_by_role("tab", name="History")).to_have_attribute("aria-selected", "true")
    use.press("Enter")
    expect(page.locator("#rp-text textarea")).to_be_focused()
    expect(picker(page)).to_have_value("Ben")
    expect(saved_notice).to_contain_text("Saved “Ben”.")
    expect(offer).to_be_hidden()
