"""Stop in the dock and Escape end speech and playback on any tab, and keys move between tabs."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from storage import Storage, VoiceLibrary
from tests.storage.speaking import spoken
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.support.waiting import until
from tests.web.tabs.new_voice.test_tab import STORY
from tests.web.visiting import open_tab, picker, player, speak, upload, visit, wait_for

Serve = Callable[..., str]
pytestmark = pytest.mark.slow
LONG = "It goes on and on, as the river does. " * 40


def stop_in_dock(page: Page) -> None:
    page.locator("#rp-dock").get_by_role("button", name="Stop (Esc)").click()


def wait_for_silence(page: Page) -> None:
    page.wait_for_function("window.reprisePlayer.playing === null", polling=100)


def press_escape(page: Page) -> None:
    page.keyboard.press("Escape")


def test_stop_ends_all_sound_from_another_tab_and_escape_closes_menus_first(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage
) -> None:
    """Uses the buttons and the key in turn. Keys move between tabs."""
    anna = library.add(voice("Anna", seconds=20))
    kept = storage.history.add(spoken("Kept."))
    assert kept is not None
    engine = FakeEngine(Script(pace=0.9))
    with visit(chromium, serve(engine, storage)) as page:
        stop = page.locator("#rp-dock .rp-stop-all")
        expect(picker(page)).to_have_value("Anna")
        expect(stop).to_be_disabled()

        speak(page, LONG)
        wait_for(page, "player.played > 0")
        open_tab(page, "Status")
        stop_in_dock(page)
        wait_for(page, "player.finished")
        assert player(page)["stopReason"] == "cancelled"
        expect(stop).to_be_disabled()

        open_tab(page, "Library")
        page.get_by_role("button", name="Hear Anna").click()
        wait_for(page, f"player.on?.startsWith('voice:{anna.id}') && player.position > 0")
        open_tab(page, "History")
        press_escape(page)
        wait_for_silence(page)
        expect(stop).to_be_disabled()

        engine.script.pace = 0.2  # a card is played when all of it is spoken
        open_tab(page, "Script")
        page.get_by_label("Text of the new script").fill(
            "\n\n".join(["The first card is heard for a second or two.", LONG, LONG])
        )
        page.get_by_role("button", name="Make cards").click()
        page.get_by_role("button", name="Speak all").click()
        page.wait_for_function("window.reprisePlayer.playing !== null", polling=100)
        open_tab(page, "Speak")
        assert page.evaluate("window.reprisePlayer.playing !== null")
        beside_speak = page.locator("#rp-stop")
        expect(beside_speak).to_have_attribute("title", "Stops all speech and playback on this page (Esc)")
        beside_speak.click()
        expect(stop).to_be_disabled()
        wait_for_silence(page)
        until(lambda: engine.speeches[-1].cancelled)
        open_tab(page, "Script")
        expect(page.get_by_role("button", name="Speak the rest")).to_be_visible()

        engine.script.pace = 0.9
        open_tab(page, "New voice")
        upload(page, STORY)
        page.get_by_role("button", name="Play selection").click()
        expect(stop).to_be_enabled()
        stop_in_dock(page)
        expect(page.get_by_role("button", name="Play selection")).to_be_visible()
        expect(stop).to_be_disabled()
        check_keys_of_speak(page)


def check_keys_of_speak(page: Page) -> None:
    open_tab(page, "Speak")
    speak(page, LONG)
    wait_for(page, "player.played > 0 && !player.finished")
    for opener, inside in (
        (picker(page), page.get_by_role("option", name="Anna")),
        (page.locator(".rp-examples summary"), page.get_by_role("button", name="A news line")),
    ):
        opener.click()
        expect(inside).to_be_visible()
        page.keyboard.press("Escape")
        expect(inside).to_be_hidden()
        assert not player(page)["finished"]
    page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")  # and the user stays
    wait_for(page, f"player.chunks > {player(page)['chunks'] + 2}")  # speech goes on
    page.keyboard.press("Escape")
    wait_for(page, "player.finished")
    assert player(page)["stopReason"] == "cancelled"

    choices = page.locator("#rp-picker [role=listbox]")
    picker(page).click()
    expect(choices).to_be_visible()
    page.keyboard.press("Tab")
    expect(choices).to_have_count(0)
    expect(picker(page)).to_have_value("Anna")

    focused = page.locator(":focus")
    page.get_by_role("tab", name="Speak", exact=True).focus()
    for key, name in (("End", "Status"), ("ArrowRight", "Speak"), ("ArrowRight", "New voice")):
        page.keyboard.press(key)
        expect(focused).to_have_text(name)
        expect(focused).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    expect(focused).not_to_have_attribute("role", "tab")
    page.keyboard.press("Shift+Tab")
    expect(focused).to_have_text("New voice")
