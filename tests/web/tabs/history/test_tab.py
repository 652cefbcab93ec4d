"""The History tab in a browser."""

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import soundfile
from playwright.sync_api import Browser, Locator, Page, expect

from engine.audio import encode_audio
from storage import Storage
from storage.pronunciations import Pronunciation
from storage.repositories.takes import NewTake
from tests.paths import CLIP
from tests.support.fake_engine import SAMPLE_RATE, FakeEngine, Script, buzz, voice
from tests.support.waiting import until
from tests.web.visiting import downloaded, finish_deletions, open_tab, picker, player, speak, visit, wait_for
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


@pytest.fixture
def url(serve: Serve, storage: Storage) -> str:
    anna = storage.voices.add(voice("Anna"))
    add_take(storage, "An older take.", voice_id=anna.id, settings={"temperature": 1.2}, model="fake")
    add_take(storage, "By someone who is gone. " * 20, voice_id="b" * 32)
    return serve(FakeEngine(Script(pace=0.05)), storage)


def test_take_is_listed_reused_and_deleted_with_all_data(chromium: Browser, url: str, storage: Storage) -> None:
    storage.pronunciations.put([Pronunciation("SQL", "sequel")], owner="local")
    with visit(chromium, url) as page:
        expect(picker(page)).to_have_value("Anna")
        speak(page, "A take of today.")
        wait_for(page, "player.finished")
        open_tab(page, "History")
        expect(entries(page)).to_have_count(3)
        expect(entries(page).first).to_contain_text("A take of today.")
        entry(page, "An older take.").get_by_role("button", name="Details").click()
        expect(entry(page, "An older take.")).to_contain_text("temperature 1.2")
        entry(page, "An older take.").get_by_role("button", name="Use again").click()
        expect(page.get_by_label("Text to speak")).to_have_value("An older take.")
        expect(page.locator("#rp-speak-notice")).to_contain_text("are restored")
        page.keyboard.press("Control+z")
        expect(page.get_by_label("Text to speak")).to_have_value("A take of today.")
        expect(page.locator("#rp-seed textarea, #rp-seed input")).to_have_value("7")

        open_tab(page, "New voice")
        with page.expect_response("**/gradio_api/upload**") as sent:
            page.locator(".rp-file").set_input_files(CLIP)
        (clip,) = map(Path, sent.value.json())
        expect(page.locator(".rp-clip-line")).to_have_count(1)
        add_take(storage, "Spoken by a script meanwhile.")
        open_tab(page, "History")
        expect(entries(page)).to_have_count(4)
        page.get_by_text("What is kept", exact=True).click()
        page.get_by_label("Keep a history of my takes").uncheck()
        expect(page.locator("#rp-kept-notice")).to_contain_text("are not kept")
        page.get_by_role("button", name="Delete the history…").click()
        expect(page.locator("#rp-clear-question")).to_contain_text("Takes: 4")
        expect(page.locator("#rp-clear-keep")).to_be_focused()
        assert page.evaluate("window.reprisePlayer.play('clip', new Int16Array(2205))"), "it is not in the list"
        page.get_by_role("button", name="Delete the history for good").click()
        expect(entries(page)).to_have_count(0)
        expect(page.locator(".rp-history-count")).to_contain_text("History is off")
        expect(page.locator("#rp-clear")).to_be_focused()
        page.get_by_role("button", name="Delete all my data…").click()
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
    assert storage.owner_counts().empty
    assert storage.history.settings().history


def test_long_history_is_shown_in_pages_and_takes_are_played_starred_downloaded_and_quickly_deleted(
    chromium: Browser, serve: Serve, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "MAX_SHOWN", 44)
    for number in range(43):
        add_take(storage, f"Number {number}.")
    add_take(storage, "By someone.")
    add_take(storage, "An older take.")
    with visit(chromium, serve(FakeEngine(), storage), clock=True) as page:
        open_tab(page, "History")
        expect(page.locator(".rp-history-count")).to_have_text("Takes: 45")
        expect(entries(page)).to_have_count(20)
        more = page.get_by_role("button", name="Show more")
        more.click()
        expect(entries(page)).to_have_count(40)
        hint = page.get_by_text("Search to find older ones")
        expect(hint).to_be_hidden()
        more.click()
        expect(entries(page)).to_have_count(44)
        expect(more).to_be_hidden()
        expect(hint).to_be_visible()
        expect(entries(page).last).to_contain_text("Number 1.")

        search = page.get_by_label("Search", exact=True)
        search.fill("someone")
        expect(entries(page)).to_have_count(1)
        expect(hint).to_be_hidden()
        search.fill("")
        expect(entries(page)).to_have_count(20)

        older = entry(page, "An older take.")
        older.get_by_role("button", name="Play: An older take.").focus()
        page.keyboard.press("Enter")
        wait_for(page, "player.position > 0")
        assert player(page)["length"] == LENGTH
        expect(older.get_by_role("button", name="Pause: An older take.")).to_be_visible()
        page.keyboard.press("Enter")
        expect(older.get_by_role("button", name="Play: An older take.")).to_be_visible()

        older.locator("summary").click()
        name, data = downloaded(page, older.get_by_role("link", name="Opus"))
        assert name.endswith("An older take.opus")
        assert data.startswith(b"OggS")
        assert len(soundfile.read(io.BytesIO(data))[0]) > 0

        star = older.get_by_role("button", name="Star: An older take.")
        star.click()
        expect(star).to_have_attribute("aria-pressed", "true")
        page.get_by_label("Starred only").check()
        expect(entries(page)).to_have_count(1)
        page.get_by_label("Starred only").uncheck()
        expect(entries(page)).to_have_count(20)

        older.get_by_role("button", name="Delete", exact=True).click()
        older.get_by_role("button", name="Undo").click()
        expect(older.get_by_role("button", name="Play: An older take.")).to_be_visible()
        older.get_by_role("button", name="Delete", exact=True).click()
        finish_deletions(page)
        expect(older).to_have_count(0)
        expect(page.get_by_role("button", name="Play: By someone.")).to_be_focused()
        expect(page.locator("#rp-history-notice")).to_have_text("The take is deleted.")
        assert storage.history.page().total == 44

        # Deletions in quick succession all apply. By default, Gradio drops an event while the same event is running.
        for text in ("By someone.", "Number 42.", "Number 41."):
            entry(page, text).get_by_role("button", name="Delete", exact=True).click()
        page.clock.run_for(10_500)
        expect(page.locator(".rp-history-count")).to_have_text("Takes: 41")
    assert storage.history.page().total == 41
