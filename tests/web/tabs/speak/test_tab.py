"""The Speak tab in a browser: keys, takes, examples and settings."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from engine.errors import InvalidText
from engine.text import speaking_time
from storage import Storage, VoiceLibrary, VoiceRecord
from storage.errors import TakeNotFound
from storage.voices.sample_voices import install_samples
from studio import recognition
from studio.takes.store import TakeStore
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.support.waiting import TIMEOUT, until
from tests.web.conftest import read_wav
from tests.web.visiting import (
    PHONE,
    SIZE,
    downloaded,
    drop_late_timers,
    finish_deletions,
    hold_response,
    open_settings,
    open_tab,
    pick,
    picker,
    player,
    refuse_event,
    violations,
    visit,
    wait_for,
)
from web import page_load
from web.downloads.sounds import sound_facts
from web.tabs.speak import handlers

Serve = Callable[..., str]
TEXT = "Text to speak"


def row(page: Page, place: int = 0) -> Locator:
    return page.locator(".rp-take").nth(place)


def more(take: Locator) -> Locator:
    return take.locator(".rp-take-more > summary")


def speak_text(page: Page, text: str) -> str:
    """Speak a text; return the id of its take."""
    page.get_by_label(TEXT).fill(text)
    expect(page.locator(".rp-count")).to_contain_text(f"Characters: {len(text)}")  # this line moves the button
    page.locator("#rp-speak").click()
    expect(page.locator(".rp-take-text").first).to_have_text(text)
    wait_for(page, "player.finished")
    take: str = player(page)["on"]
    return take


def check_marked_words(page: Page) -> None:
    """Check which word of “We walked along the river.” is marked at three positions of the played take."""
    wave = page.locator(".rp-wave")
    width = wave.evaluate("wave => wave.getBoundingClientRect().width")
    for share, word in ((0.7, "We"), (0.91, "the"), (0.78, "walked")):
        wave.click(position={"x": share * width, "y": 10})
        expect(page.locator(".rp-now-line [data-now]")).to_have_text(word)


def check_download_menu(page: Page, width: int) -> None:
    menu, summary = row(page).locator(".rp-menu-list"), row(page).locator(".rp-menu summary")
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(row(page).get_by_role("button", name="Download WAV")).to_be_focused()
    box = menu.bounding_box()
    assert box is not None
    assert 0 <= box["x"] < box["x"] + box["width"] <= width
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(summary).to_be_focused()
    summary.click()
    page.locator(".rp-count").click()
    expect(menu).to_be_hidden()


def pick_in_sheet(page: Page, name: str) -> None:
    """Pick a voice on a phone."""
    sheet, change = page.get_by_role("dialog", name="Voices"), page.get_by_role("button", name="Change")
    change.click()
    expect(sheet).to_be_visible()
    assert violations(page, "#rp-rail", without=("color-contrast",)) == []  # its colours are those of a desktop
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    expect(change).to_be_focused()
    change.click()
    page.locator(".rp-rail-pick", has_text=name).click()
    expect(sheet).to_have_count(0)
    expect(picker(page)).to_have_value(name)


def play_at_double_speed(page: Page) -> None:
    """Play the take that was just spoken again; its last word is marked."""
    wait_for(page, "player.position >= player.length - 1")
    once = page.evaluate("reprisePlayer.stats.played")
    page.get_by_label("Playback speed").select_option("2")
    page.get_by_label("Player").get_by_role("button", name="Play").click()
    wait_for(page, "player.position > 0 && player.position < player.length - 1")
    wait_for(page, "player.position >= player.length - 1")
    heard = page.evaluate("reprisePlayer.stats")
    assert heard["played"] - once < 0.7 * heard["length"], "double speed takes half as many samples"
    page.get_by_label("Details").click()
    expect(page.locator(".rp-detail-list")).to_contain_text("Ben")
    expect(page.locator(".rp-now-line [data-now]")).to_have_text("longer")


def test_takes_are_played_compared_saved_deleted_repeated_proofed_and_repaired(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add(voice("Anna"))
    library.add(voice("Ben"))
    long = library.add(voice("W" * 40))
    library.update(long.id, description="d" * 200 + " words" * 250)
    engine = FakeEngine(Script(tells_words=True))
    with visit(chromium, serve(engine, storage), viewport=PHONE["viewport"]) as page:
        expect(picker(page)).to_have_value("Anna")
        pick_in_sheet(page, "Ben")
        reach_speak_without_scrolling(page)
        play_compare_save_and_delete(page, storage)
        engine.asked.clear()
        storage.history.change_settings(history=False)
        pick(page, long.name)
        with monkeypatch.context() as patched:
            patched.setattr(handlers, "sound_facts", partial(sound_facts, valid=1))
            repeat_without_history(page, engine)
        assert storage.history.page().total == 0
        proof_and_repair(page, monkeypatch)
        assert len(engine.asked) == 3 + 4
        refuse_an_unspeakable_text(page, engine)


def refuse_an_unspeakable_text(page: Page, engine: FakeEngine) -> None:
    """Check that a text that cannot be spoken is explained beside it, and that the take that was playing plays on."""
    page.get_by_label("Playback speed").select_option("0.5")
    take = speak_text(page, "A take that is long enough to be still playing when another text is refused.")
    page.evaluate("id => { window.reprisePlayer.play(id); }", take)
    page.wait_for_function("id => window.reprisePlayer.playing === id", arg=take, polling=100)
    page.evaluate("""() => {
        const note = ({ detail }) => (window.resumed = detail.id);
        const listen = () => document.addEventListener("reprise:playing", note);
        document.addEventListener("reprise:begun", listen, { once: true });
    }""")
    engine.script.fail_after, engine.script.failure = 0, InvalidText("text.no_words")
    page.get_by_label(TEXT).fill("Привет")
    page.locator("#rp-speak").click()
    reason = page.locator("#rp-writing").get_by_role("alert")
    expect(reason).to_contain_text("no words")
    page.wait_for_function("id => window.resumed === id", arg=take, polling=100)
    expect(page.locator(".rp-status")).to_contain_text("Spoken to the end")
    page.get_by_label(TEXT).fill("Hello")
    expect(reason).to_be_hidden()


def reach_speak_without_scrolling(page: Page) -> None:
    """Check that Speak is in the window: on a phone, between its browser's bars, and on a desktop with a long text."""
    begin = page.get_by_role("button", name="Speak", exact=True)
    page.set_viewport_size({"width": 390, "height": 664})
    expect(begin).to_be_in_viewport(ratio=1)
    expect(picker(page)).to_be_hidden()  # the sheet has the same voices
    page.set_viewport_size(SIZE)
    page.get_by_label(TEXT).fill("A line of a long text. " * 100)
    expect(begin).to_be_in_viewport(ratio=1)


def play_compare_save_and_delete(page: Page, storage: Storage) -> None:
    first, second = (
        speak_text(page, "The first of two takes."),
        speak_text(page, "The second take, a little longer."),
    )
    play_at_double_speed(page)
    expect(row(page).locator(".rp-take-facts")).to_contain_text("Ben · ")
    expect(row(page).get_by_role("button", name="Same again")).to_be_visible()
    expect(row(page, 1).get_by_role("button", name="Same again")).to_be_hidden()
    page.set_viewport_size(PHONE["viewport"])
    check_download_menu(page, 390)
    page.set_viewport_size(SIZE)

    page.get_by_role("button", name="Play: The first").click()
    expect(page.get_by_role("button", name="Pause: The first")).to_be_visible()
    expect(page.locator(".rp-status")).to_contain_text("Spoken to the end")
    more(row(page, 1)).click()
    row(page, 1).get_by_role("button", name="Compare").click()
    expect(page.get_by_text("Choose a second take")).to_be_visible()
    row(page).get_by_role("button", name="Compare").click()
    wait_for(page, f"['{first}', '{second}'].includes(player.on)")
    before = player(page)["on"]
    page.get_by_role("button", name="Switch between the two").click()
    wait_for(page, f"player.on !== '{before}'")

    star = row(page).get_by_role("button", name="Star: The second")
    with refuse_event(page, '"starred"', star.click):
        expect(star).to_have_attribute("aria-pressed", "true")
    expect(star).to_have_attribute("aria-pressed", "false")
    with page.expect_response(lambda answer: '"starred":false' in (answer.request.post_data or "")):
        star.dblclick()
    expect(star).to_have_attribute("aria-pressed", "false")
    with page.expect_response(lambda answer: '"starred":true' in (answer.request.post_data or "")):
        star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    assert [record.id for record in storage.history.page(starred=True).records] == [second]

    row(page).locator(".rp-menu summary").click()
    file, data = downloaded(page, row(page).get_by_role("button", name="Download MP3"))
    expect(row(page).locator(".rp-menu-list")).to_be_hidden()
    expect(row(page).locator(".rp-menu summary")).to_be_focused()
    assert file == "Ben – The second take, a little longer.mp3"
    assert data.startswith((b"\xff\xfb", b"\xff\xf3", b"ID3"))

    row(page).get_by_role("button", name="Delete").click()
    expect(row(page).get_by_role("button", name="Undo")).to_be_focused()
    expect(row(page).locator(".rp-take-text")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(row(page).locator(".rp-take-text")).to_be_visible()
    drop_late_timers(page)
    with mock.patch.object(TakeStore, "delete", side_effect=TakeNotFound("Gone.")):
        row(page).get_by_role("button", name="Delete").click()
        finish_deletions(page)
        expect(page.locator("#rp-speak-notice .rp-bad")).to_be_visible()
    expect(row(page).locator(".rp-take-text")).to_be_visible()
    row(page).get_by_role("button", name="Delete").click()
    assert len(storage.history.page().records) == 2, "the deletion can still be undone"
    finish_deletions(page)
    expect(page.locator(".rp-take")).to_have_count(1)
    expect(row(page).get_by_role("button", name="Play: The first")).to_be_focused()
    assert [record.id for record in storage.history.page().records] == [first]
    storage.history.delete(first)
    page.evaluate("window.repriseTakes.refresh()")
    expect(page.locator(".rp-take")).to_have_count(0)
    expect(page.get_by_text("Each take appears here.")).to_be_visible()


def repeat_without_history(page: Page, engine: FakeEngine) -> None:
    open_settings(page)
    page.locator("#rp-seed input").fill("42")
    speak_text(page, "A take with its own seed.")
    expect(row(page).locator(".rp-take-facts")).to_contain_text("not in the history")
    # Long names and descriptions leave room for the text.
    expect(page.locator(".rp-take-facts")).to_contain_text("WWW")
    expect(page.locator("#rp-speak")).to_be_in_viewport(ratio=1)
    for part in (".rp-card-who", ".rp-take"):
        assert page.locator(part).evaluate("node => node.scrollWidth <= node.clientWidth"), part
    page.get_by_role("button", name="Back to the default settings").click()
    expect(page.locator("#rp-seed input")).to_have_value("")
    page.get_by_label(TEXT).fill("Something else by now.")

    more(row(page)).press("Enter")
    row(page).get_by_role("button", name="Same again", include_hidden=True).dispatch_event("click")
    expect(page.locator(".rp-take")).to_have_count(2)
    expect(more(row(page, 1))).to_be_focused()
    expect(row(page, 1).locator(".rp-take-more")).not_to_have_attribute("open", "")
    row(page).get_by_role("button", name="Another take").press("Enter")
    expect(page.locator(".rp-take")).to_have_count(3)
    expect(row(page, 1).get_by_role("button", name="Another take")).to_be_focused()
    assert {text for text, *_ in engine.asked} == {"A take with its own seed."}
    assert [options.seed for *_, options in engine.asked] == [42, 42, None]
    row(page, 1).locator(".rp-menu summary").click()
    _, again = downloaded(page, row(page, 1).get_by_role("button", name="Download WAV"))
    assert np.abs(read_wav(again)[0].astype(int)).max() > 300
    page.wait_for_timeout(1_000)  # the links that came with the take have expired
    page.get_by_label("Other formats").click()
    _, flac = downloaded(page, page.get_by_label("Player").get_by_role("button", name="Download FLAC"))
    assert flac.startswith(b"fLaC")
    expect(page.get_by_label("Other formats")).to_be_focused()

    first, second = (row(page, number).locator(".rp-take-seed") for number in (2, 0))
    seed = page.locator("#rp-seed input")
    with hold_response(page, '["42"', first.click):
        second.click()
        expect(seed).to_have_value(second.inner_text().removeprefix("Seed "))
    first.click()
    expect(seed).to_have_value("42")


def proof_and_repair(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best try is added to the list, which shows after a reload what was recognised."""
    ready = [False]
    heard = ["a take with its own feed", *["no"] * 3, "a take with its own seed", "Nothing alike.", "Other words."]
    monkeypatch.setattr(recognition, "can_transcribe", lambda: ready[0])
    monkeypatch.setattr(recognition, "transcribe", lambda *_given: heard.pop(0))
    row(page).get_by_role("button", name="Check", exact=True).click()
    dialog = page.get_by_role("dialog", name="Automatic transcripts")
    expect(dialog).to_contain_text("operator can enable them")
    page.keyboard.press("Escape")
    ready[0] = True
    row(page).get_by_role("button", name="Check", exact=True).click()
    expect(row(page).locator("mark")).to_have_text("seed.")
    expect(row(page).get_by_role("button", name="Check", exact=True)).to_be_focused()
    expect(row(page).get_by_role("status")).to_contain_text("Recognised: “a take with its own feed”")
    assert violations(page, "#rp-takes") == []
    row(page).get_by_role("button", name="Fix").press("Enter")
    expect(page.get_by_text("A better take is at the top of the list.")).to_be_visible()
    expect(page.locator(".rp-take")).to_have_count(4)
    expect(row(page, 1).locator(".rp-take-play")).to_be_focused()
    expect(row(page)).to_contain_text("Every word matches the text.")
    page.reload()
    expect(row(page)).to_contain_text("Every word matches the text.")
    expect(row(page, 1).locator("mark")).to_have_text("seed.")
    more(row(page, 2)).click()
    page.evaluate("""() => {  // the next check begins in the moment in which the former is over
        const [first, , third] = document.querySelectorAll(".rp-take");
        const observer = new MutationObserver(() => {
            if (!third.querySelector("mark")) return;
            observer.disconnect();
            [...first.querySelectorAll("button")].find((button) => button.textContent === "Check").click();
        });
        observer.observe(third, { childList: true, subtree: true });
    }""")
    row(page, 2).get_by_role("button", name="Check", exact=True).click()
    expect(row(page, 2).locator("mark")).to_have_count(6)
    expect(row(page).get_by_role("status")).to_contain_text("Recognised: “Other words.”")
    assert heard == []


@pytest.fixture
def may_load(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The server answers the load of the page while this is set. Routes of the browser would disable its cache."""
    opened, answer = threading.Event(), page_load.heading_html

    def wait(*given: Any) -> str:
        assert opened.wait(TIMEOUT)
        return answer(*given)

    monkeypatch.setattr(page_load, "heading_html", wait)
    return opened


def test_text_is_spoken_once_the_voices_are_loaded_counted_filled_in_checked_and_spoken_with_keys(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, may_load: threading.Event
) -> None:
    install_samples(library)
    adam, ben = library.list()[:2]
    engine = FakeEngine(Script(tells_words=True))
    url = serve(engine, storage, way="browser")
    may_load.clear()
    with visit(chromium, url) as page:
        wait_for_voices(page, engine, may_load)
        engine.asked.clear()
        engine.script.pace = 0.1
        fill_in_and_speak(page, engine, adam, ben)
        refuse_to_speak(page)
        assert len(engine.asked) == 1
        use_keys(page, engine)


def wait_for_voices(page: Page, engine: FakeEngine, may_load: threading.Event) -> None:
    """Takes wait for the voices; they are listed again after a reload, and their words are marked."""
    page.get_by_label(TEXT).fill("We walked along the river.")
    page.locator(".rp-at-once").select_option("2")
    page.locator("#rp-speak").click()
    expect(picker(page)).to_have_value("")
    assert engine.asked == []
    may_load.set()
    expect(picker(page)).not_to_have_value("")
    wait_for(page, "player.finished")
    expect(page.locator(".rp-take")).to_have_count(2)
    expect(page.locator("#rp-speak-notice")).to_be_empty()
    length = player(page)["length"]
    page.get_by_label("Playback speed").select_option("2")
    may_load.clear()
    page.reload()
    expect(picker(page)).to_have_value("")
    for _ in range(2):  # the second press replaces the first, and Stop cancels it
        page.locator("#rp-speak").press("Enter")
    page.get_by_role("button", name="Stop", exact=True).first.click()
    may_load.set()
    expect(picker(page)).not_to_have_value("")
    expect(page.get_by_label(TEXT)).to_have_value("We walked along the river.")
    expect(page.get_by_label("Playback speed")).to_have_value("2")
    row(page).locator(".rp-take-play").click()
    wait_for(page, "player.position > 0 && player.position >= player.length - 1")
    assert player(page)["length"] == length, "the take is fetched by its link"
    check_marked_words(page)
    page.get_by_label(TEXT).fill("Only this is spoken.")
    page.locator("#rp-speak").click()
    expect(page.locator(".rp-take")).to_have_count(4)
    wait_for(page, "player.finished")
    assert [text for text, *_ in engine.asked][2:] == ["Only this is spoken."] * 2
    page.locator(".rp-at-once").select_option("1")
    page.get_by_label("Playback speed").select_option("1")


def fill_in_and_speak(page: Page, engine: FakeEngine, adam: VoiceRecord, ben: VoiceRecord) -> None:
    field = page.get_by_label(TEXT)
    unspoken = page.get_by_text("This model leaves out words in [square brackets].")
    field.fill("He left [the king].")
    expect(unspoken).to_be_visible()
    field.fill("He left. [Pause: 1] The king [stayed](https://example.com).")
    expect(unspoken).to_be_hidden()
    foreign = page.get_by_text("This model speaks English only")
    expect(foreign).to_be_hidden()
    field.fill("Guten Morgen, wie geht es Ihnen heute?")
    expect(foreign).to_be_visible()
    text = "Half of this text is a guess, and the other half is not. " * 3
    field.fill(text)
    pick(page, "Ben (sample)")
    expect(page.locator(".rp-card-facts")).to_contain_text("English")
    expect(page.locator(".rp-tags")).to_be_hidden()
    seconds = round(speaking_time(text.strip()) / 5) * 5
    expect(page.locator(".rp-count")).to_have_text(f"Characters: {len(text.strip())} · about 0:{seconds:02}")
    page.get_by_text("Advanced", exact=True).click()
    page.get_by_label("number input for Speaking speed").fill("0.5")
    doubled = round(speaking_time(text.strip()) * 2 / 5) * 5
    expect(page.locator(".rp-count")).to_have_text(f"Characters: {len(text.strip())} · about 0:{doubled:02}")
    page.get_by_label("number input for Speaking speed").fill("1")
    page.get_by_text("Advanced", exact=True).click()

    page.get_by_text("Examples", exact=True).click()
    expect(page.locator(".rp-examples-list button")).to_have_count(4)
    page.get_by_role("button", name="Numbers and dates").click()
    assert "The train leaves" in field.input_value(), "the model speaks English only"
    field.press("Control+z")
    expect(field).to_have_value(text)
    page.get_by_text("Examples", exact=True).click()
    page.get_by_role("button", name="Demo of this voice").click()
    expect(field).to_have_value(ben.demo)  # like one that the page suggests, it gives way to that of the next voice

    engine.style_tags = True  # as with another model
    engine.capabilities = replace(engine.capabilities, english_only=False)
    pick(page, "Adam (sample)")
    expect(field).to_have_value(adam.demo)
    page.get_by_role("button", name="whisper").click()
    expect(field).to_have_value(adam.demo + "[whisper]")
    expect(unspoken).to_be_hidden()
    page.get_by_text("Examples", exact=True).click()
    page.get_by_role("button", name="A news line").click()
    assert "library" in field.input_value()
    engine.script.seconds_per_character = 0.01
    page.locator("#rp-speak").click()
    expect(page.locator(".rp-take-text").first).to_contain_text("library")
    wait_for(page, "player.finished")
    assert "library" in engine.asked[0][0], "the inserted example is spoken"


def refuse_to_speak(page: Page) -> None:
    """What cannot be spoken starts no take."""
    field = page.get_by_label(TEXT)
    status, take = page.locator(".rp-status"), player(page)["on"]
    asked: list[Request] = []

    def note(request: Request) -> None:
        asked.append(request)

    page.on("request", note)
    field.fill("  ")
    page.locator("#rp-speak").click()
    expect(status).to_contain_text("There is nothing to say yet.")
    expect(field).to_be_focused()
    assert ([each for each in asked if "queue/join" in each.url], player(page)["on"]) == ([], take)
    page.remove_listener("request", note)
    page.keyboard.type("Hello.")
    expect(status).to_contain_text("Spoken to the end")

    open_settings(page)
    page.locator("#rp-seed input").fill("many")
    page.locator("#rp-speak").click()
    expect(status).to_contain_text("The seed must be a whole number")
    assert player(page)["on"] == take
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    page.get_by_role("button", name="Back to the default settings").click()
    expect(status).to_contain_text("Spoken to the end")


def use_keys(page: Page, engine: FakeEngine) -> None:
    engine.script = Script(pace=0.5)
    page.get_by_label(TEXT).focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("It goes on and on. " * 40)
    page.keyboard.press("Control+Enter")
    wait_for(page, "player.played > 0 && !player.finished")
    page.keyboard.press("Control+Enter")  # no effect while it speaks
    page.keyboard.press("Escape")
    wait_for(page, "player.finished")
    assert player(page)["stopReason"] == "cancelled"
    assert len(engine.asked) == 2

    page.locator("#rp-seed input").fill("12")
    page.locator("#rp-seed input").press("Meta+Enter")
    wait_for(page, "player.played > 0 && !player.finished")
    assert engine.asked[2][2].seed == 12

    before = player(page)["ticket"]
    page.evaluate("""() => {
        for (const key of [{ key: "Escape" }, { key: "Enter", ctrlKey: true }]) {
            document.dispatchEvent(new KeyboardEvent("keydown", { ...key, bubbles: true, cancelable: true }));
        }
    }""")
    wait_for(page, f"player.ticket !== '{before}' && player.played > 0 && !player.finished")

    before = player(page)["ticket"]
    page.evaluate("""() => {
        const another = () => document.querySelector(".rp-again").click();
        document.addEventListener("reprise:spoken", () => setTimeout(another), { once: true });
    }""")
    page.keyboard.press("Escape")
    wait_for(page, f"player.ticket !== '{before}' && player.played > 0 && !player.finished")
    assert len(engine.asked) == 5
    page.keyboard.press("Escape")
    wait_for(page, "player.finished")

    busy = page.locator("html[data-rp-busy]")
    microphone = "document.dispatchEvent(new Event('reprise:recording'))"

    def stop_then_send(route: Route) -> None:  # on a slow connection, a take may be stopped before the server knows it
        page.keyboard.press("Escape")
        for drop in (partial(page.evaluate, microphone), partial(page.keyboard.press, "Escape")):
            page.keyboard.press("Control+Enter")  # waits until the stopped take is over
            expect(busy).to_be_attached()
            expect(page.locator(".rp-status")).to_have_text("Waiting for the engine…")
            drop()
            expect(busy).to_have_count(0)
        route.continue_()

    page.route("**/queue/join**", stop_then_send, times=1)
    with page.expect_response("**/queue/join**"):
        page.keyboard.press("Control+Enter")
    expect(page.locator(".rp-status")).to_have_text("Stopped before it began.")
    until(lambda: len(engine.asked) == 6 and engine.speeches[-1].result)
    end = engine.speeches[-1].result
    assert end is not None
    assert end.stop_reason == "cancelled"

    page.locator(".rp-examples summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="A news line")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="A news line")).to_be_hidden()
    open_tab(page, "Status")
    page.keyboard.press("Control+Enter")
    open_tab(page, "Speak")
    page.get_by_role("button", name="Hear this voice").click()
    expect(page.get_by_role("button", name="Pause the clip")).to_be_visible()
    expect(page.locator(".rp-status")).to_have_text("The recording of Adam")
    assert len(engine.asked) == 6, "the shortcut does nothing on other tabs"
    page.locator("#rp-to-new").click()
    expect(page.get_by_role("tab", name="New voice")).to_have_attribute("aria-selected", "true")
