"""The History tab in a browser."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from engine.audio import encode_audio
from engine.errors import InvalidInput
from storage import Storage
from storage.pronunciations import Pronunciation
from storage.repositories.takes import NewTake
from tests.paths import CLIP
from tests.support.fake_engine import SAMPLE_RATE, FakeEngine, Script, buzz, voice
from tests.support.waiting import until
from tests.web.visiting import (
    downloaded,
    drop_late_timers,
    finish_deletions,
    hold_response,
    open_tab,
    picker,
    player,
    refuse_event,
    speak,
    visit,
    wait_for,
)
from web.tabs.history import handlers

Serve = Callable[..., str]
LENGTH = 20 * SAMPLE_RATE  # of a take: too long to end while a slow machine checks for it


@cache
def sound() -> bytes:
    return encode_audio(buzz(0, LENGTH, 120), SAMPLE_RATE, "flac")


def add_take(storage: Storage, text: str, *, owner: str = "local", **how: Any) -> str:
    flac = sound()
    made = storage.history.add(NewTake(text, flac, LENGTH / SAMPLE_RATE, 7, "Anna", **how), owner=owner)
    assert made is not None
    return made.id


def entries(page: Page) -> Locator:
    return page.locator(".rp-entry")


def entry(page: Page, text: str) -> Locator:
    return entries(page).filter(has_text=text)


def test_takes_are_listed_played_starred_deleted_and_used_again_until_all_data_is_deleted(
    chromium: Browser, serve: Serve, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "MAX_SHOWN", 22)
    anna = storage.voices.add(voice("Anna"))
    storage.pronunciations.put([Pronunciation("SQL", "sequel")], owner="local")
    for number in range(20):
        add_take(storage, f"Number {number}.")
    add_take(storage, "By someone who is gone. " * 20, voice_id="b" * 32)
    add_take(storage, "By somebody.")
    add_take(storage, "An older take.", voice_id=anna.id, settings={"temperature": 1.2}, model="fake")
    with visit(chromium, serve(FakeEngine(Script(pace=0.05)), storage), clock=True) as page:
        expect(picker(page)).to_have_value("Anna")
        speak(page, "A take of today.")
        wait_for(page, "player.finished")
        open_tab(page, "History")
        list_and_search(page)
        play_download_and_star(page)
        delete_takes(page, storage)
        use_take_again(page, storage)
        delete_all_data(page, storage)
    assert storage.owner_counts().empty
    assert storage.history.settings().history


def list_and_search(page: Page) -> None:
    expect(page.locator(".rp-history-count")).to_have_text("Takes: 24")
    expect(entries(page)).to_have_count(20)
    expect(entries(page).first).to_contain_text("A take of today.")
    more, hint = page.get_by_role("button", name="Show more"), page.get_by_text("Search to find older ones")
    expect(hint).to_be_hidden()
    more.press("Enter")
    expect(entries(page)).to_have_count(22)
    expect(more).to_be_hidden()
    expect(entries(page).nth(20).locator(".rp-entry-play")).to_be_focused()
    expect(hint).to_be_visible()

    search = page.get_by_label("Search", exact=True)
    search.fill("somebody")
    expect(entries(page)).to_have_count(1)
    expect(hint).to_be_hidden()
    search.fill("")
    expect(entries(page)).to_have_count(20)


def play_download_and_star(page: Page) -> None:
    older = entry(page, "An older take.")
    older.get_by_role("button", name="Play: An older take.").press("Enter")
    wait_for(page, f"player.length === {LENGTH} && player.position > 0")
    expect(older.get_by_role("button", name="Pause: An older take.")).to_be_visible()
    page.keyboard.press("Enter")
    expect(older.get_by_role("button", name="Play: An older take.")).to_be_visible()

    older.locator("summary").click()
    name, data = downloaded(page, older.get_by_role("link", name="FLAC"))
    assert name.endswith("An older take.flac")
    assert data.startswith(b"fLaC")

    star = older.get_by_role("button", name="Star: An older take.")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Starred only").check()
    expect(entries(page)).to_have_count(1)
    page.get_by_label("Starred only").uncheck()
    expect(entries(page)).to_have_count(20)


def delete_takes(page: Page, storage: Storage) -> None:
    newest = entry(page, "A take of today.")
    newest.get_by_role("button", name="Delete", exact=True).click()
    newest.get_by_role("button", name="Undo").click()
    expect(newest.get_by_role("button", name="Play: A take of today.")).to_be_visible()
    newest.get_by_role("button", name="Delete", exact=True).click()
    finish_deletions(page)
    expect(newest).to_have_count(0)
    expect(page.get_by_role("button", name="Play: An older take.")).to_be_focused()
    expect(page.locator("#rp-history-notice")).to_have_text("The take is deleted.")
    assert storage.history.page().total == 23

    # Deletions in quick succession all apply. By default, Gradio drops an event while the same event is running.
    for text in ("By somebody.", "Number 19.", "Number 18."):
        entry(page, text).get_by_role("button", name="Delete", exact=True).click()
    page.clock.run_for(10_500)
    expect(page.locator(".rp-history-count")).to_have_text("Takes: 20")
    assert storage.history.page().total == 20

    gone = next(record for record in storage.history.page().records if record.text == "Number 17.")

    def delete_before(route: Route) -> None:
        if gone.id in (route.request.post_data or ""):
            storage.history.delete(gone.id)  # as another page does
        route.continue_()

    keep_what_is_not_deleted_and_the_last_star(page, storage)

    page.route("**/gradio_api/run/**", delete_before)
    entry(page, "Number 17.").get_by_role("button", name="Star: Number 17.").click()
    expect(page.locator("#rp-history-notice .rp-bad")).to_be_in_viewport(ratio=1)
    page.unroute_all(behavior="wait")


def keep_what_is_not_deleted_and_the_last_star(page: Page, storage: Storage) -> None:
    row, notice = entry(page, "Number 16."), page.locator("#rp-history-notice .rp-bad")
    kept = next(record for record in storage.history.page().records if record.text == "Number 16.")

    def delete() -> None:
        row.get_by_role("button", name="Delete", exact=True).click()
        finish_deletions(page)

    drop_late_timers(page)
    with mock.patch.object(storage.history, "withdraw", side_effect=InvalidInput("history.nothing")):
        delete()
        expect(row.get_by_role("button", name="Play: Number 16.")).to_be_visible()
    expect(notice).to_be_in_viewport(ratio=1)
    with refuse_event(page, kept.id, delete):
        expect(row.get_by_role("button", name="Play: Number 16.")).to_be_hidden()
    expect(row.get_by_role("button", name="Play: Number 16.")).to_be_visible()
    expect(page.get_by_text("The server refused a request")).to_be_visible()

    star, held = row.get_by_role("button", name="Star: Number 16."), []

    def hold_first(route: Route) -> None:
        is_star = not held and '"starred"' in (route.request.post_data or "")
        held.append(route) if is_star else route.continue_()

    page.route("**/gradio_api/run/**", hold_first)
    star.click()
    star.click()
    expect(star).to_have_attribute("aria-pressed", "false")
    while not held:
        page.wait_for_timeout(20)
    with page.expect_response(lambda answer: '"starred":false' in (answer.request.post_data or "")):
        held[0].continue_()
    assert not storage.history.get(kept.id).starred, "the last press counts"
    page.unroute("**/gradio_api/run/**", hold_first)
    expect(star).to_have_attribute("aria-pressed", "false")
    with refuse_event(page, '"starred"', star.click):
        expect(star).to_have_attribute("aria-pressed", "true")
    expect(star).to_have_attribute("aria-pressed", "false")


def use_take_again(page: Page, storage: Storage) -> None:
    older = entry(page, "An older take.")
    older.get_by_role("button", name="Details").click()
    expect(older).to_contain_text("temperature 1.2")
    older.get_by_role("button", name="Use again").click()
    expect(page.get_by_label("Text to speak")).to_have_value("An older take.")
    expect(page.locator("#rp-speak-notice")).to_contain_text("are restored")
    page.keyboard.press("Control+z")
    expect(page.get_by_label("Text to speak")).to_have_value("A take of today.")
    expect(page.locator("#rp-seed textarea, #rp-seed input")).to_have_value("7")

    # Of two in quick succession, the last one counts.
    open_tab(page, "History")
    last = next(record.id for record in storage.history.page().records if record.text == "Number 16.")
    with (
        hold_response(page, "are restored", older.get_by_role("button", name="Use again").click, every=True),
        page.expect_request(lambda sent: last in (sent.post_data or "")),
    ):
        entry(page, "Number 16.").get_by_role("button", name="Use again").click()
    expect(page.get_by_label("Text to speak")).to_have_value("Number 16.")

    # A tab that is opened before the answer stays open.
    open_tab(page, "History")
    with hold_response(page, "are restored", older.get_by_role("button", name="Use again").click):
        open_tab(page, "Status")
    expect(page.get_by_label("Text to speak")).to_have_value("An older take.")
    expect(page.get_by_role("tab", name="Status")).to_have_attribute("aria-selected", "true")

    # So does the focus in a field.
    open_tab(page, "History")
    find = page.get_by_label("Find a voice")
    with hold_response(page, "are restored", entry(page, "Number 16.").get_by_role("button", name="Use again").click):
        open_tab(page, "Speak")
        find.focus()
    expect(page.get_by_label("Text to speak")).to_have_value("Number 16.")
    expect(find).to_be_focused()


def delete_all_data(page: Page, storage: Storage) -> None:
    open_tab(page, "New voice")
    with page.expect_response("**/gradio_api/upload**") as sent:
        page.locator(".rp-file").set_input_files(CLIP)
    (clip,) = map(Path, sent.value.json())
    expect(page.locator(".rp-clip-line")).to_have_count(1)
    add_take(storage, "Spoken by a script meanwhile.")
    open_tab(page, "History")
    expect(entries(page).first).to_contain_text("Spoken by a script meanwhile.")
    page.get_by_text("What is kept", exact=True).click()
    keep = page.get_by_label("Keep a history of my takes")
    with hold_response(page, "are not kept", keep.uncheck):
        keep.check()
    until(lambda: storage.history.settings().history)
    with refuse_event(page, '"data":[false', keep.uncheck):
        keep.check()
        keep.uncheck()  # sent after the first one, which is refused
    expect(page.locator("#rp-kept-notice")).to_contain_text("are not kept")
    page.get_by_role("button", name="Delete all my data…").click()
    expect(page.locator("#rp-forget-keep")).to_be_focused()
    page.get_by_role("button", name="Delete the history…").click()
    expect(page.locator("#rp-clear-question")).to_contain_text("Takes: 20")
    expect(page.locator("#rp-forget-question")).to_be_hidden()
    expect(page.locator("#rp-clear-keep")).to_be_focused()
    assert page.evaluate("window.reprisePlayer.play('clip', new Int16Array(2205))"), "it is not in the list"
    page.get_by_role("button", name="Delete the history for good").click()
    expect(entries(page)).to_have_count(0)
    expect(page.locator(".rp-history-count")).to_contain_text("History is off")
    expect(page.locator("#rp-clear")).to_be_focused()
    page.get_by_role("button", name="Delete all my data…").click()
    expect(page.locator("#rp-forget-keep")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#rp-forget-question")).to_be_hidden()
    expect(page.locator("#rp-forget")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#rp-forget-question")).to_contain_text("Voices: 1.")
    expect(page.locator("#rp-forget-keep")).to_be_in_viewport(ratio=1)
    expect(page.locator(".rp-dictionary tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Delete everything for good").click()
    expect(page.locator("#rp-kept-notice")).to_have_text("All your data is deleted.")
    expect(page.get_by_label("Keep a history of my takes")).to_be_checked()
    assert set(page.evaluate("Object.keys(localStorage)")) <= {"reprise.owner", "reprise.draft_owner"}
    expect(page.locator(".rp-clip-line")).to_have_count(0)
    until(lambda: not clip.exists())
    assert player(page)["on"] is None
    assert not page.evaluate("window.reprisePlayer.play('clip')")
    expect(page.locator(".rp-dictionary tbody tr")).to_have_count(0)
    expect(page.locator(".rp-dictionary-export")).to_be_disabled()
