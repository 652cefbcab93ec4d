"""The studio's flows from a book to a checked file, on a phone and with the keyboard alone."""

import codecs
import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from engine.messages import english
from storage import Storage
from storage.pronunciations import Pronunciation
from storage.voices.sample_voices import install_samples
from studio import recognition
from studio.engines.idle_unloader import IdleUnload
from studio.engines.model_manager import ModelManager
from tests.paths import CLIP
from tests.studio.books.making import epub, picture
from tests.support.clock import Clock
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.support.waiting import until
from tests.web import conftest
from tests.web.tabs.script.test_tab import card, text_offset
from tests.web.visiting import PHONE, downloaded, open_tab, picker, violations, visit, wait_for
from tests.web.visitor import Visitor

Serve = Callable[..., str]
CHAPTERS = ["<h1>The River</h1><p>The boats come back.</p>", "<h1>The Harbour</h1><p>They went down there.</p>"]
RIGHT = ["The River", "The boats come back", "The Harbour"]
WRONG = "They went down here"
LEAST = 44  # px: WCAG 2.5.5, and Apple's guidelines
NOTICE = english()["model.notice_bundled"]
# Controls smaller than `least`. A checkbox is pressed on its label; a file input on the button beside it.
SMALL_TARGETS = """least => {
  const pressed = "button, a[href], summary, select, textarea, input:not([type=file]), [role=slider], [role^=tab]";
  const shown = (node) => !node.disabled && !node.closest("[aria-hidden=true], .rp-unseen")
    && node.checkVisibility({ visibilityProperty: true });
  return [...document.querySelectorAll(pressed)].filter(shown).map((node) => {
    const whole = (["checkbox", "radio"].includes(node.type) && node.closest("label")) || node;
    const { width, height } = whole.getBoundingClientRect();
    return { what: (node.ariaLabel || node.textContent || node.id).trim().slice(0, 40), width, height };
  }).filter(({ width, height }) => width > 1 && Math.min(width, height) < least - 0.5);
}"""

# Fields that Safari enlarges the page for when they are focused.
SMALL_TEXTS = """() => [...document.querySelectorAll("textarea, select, input")]
  .filter(({ type }) => !["checkbox", "radio", "range", "file"].includes(type))
  .filter((field) => parseFloat(getComputedStyle(field).fontSize) < 16)
  .map((field) => field.outerHTML.slice(0, 80))"""


class InputDevice:
    """Activates controls with the Enter key, once nothing covers the place where a finger would tap."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, what: Locator, key: str = "Enter") -> None:
        what.tap(trial=True)
        what.press(key)

    def button(self, name: str, inside: Page | Locator | None = None) -> None:
        self.press((inside or self.page).get_by_role("button", name=name, exact=True))

    def choose_file(self, what: Locator, file: Path) -> None:
        with self.page.expect_file_chooser() as chooser:
            self.press(what)
        chooser.value.set_files(file)

    def save(self, what: Locator) -> tuple[str, bytes]:
        return downloaded(self.page, what, self.press)


def test_flow_from_book_to_checked_file_on_a_phone_and_with_keys(
    chromium: Browser, serve: Serve, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_samples(storage.voices)
    storage.voices.add(voice("Ann"))
    engine, ready = FakeEngine(Script(notice="model.notice_bundled")), [False]
    heard = [*RIGHT, *[WRONG] * 5, "They went down there"]  # the last card is heard again after each of four tries
    engine.script.seconds_per_character = 0.02
    monkeypatch.setattr(recognition, "can_transcribe", lambda: ready[0])
    monkeypatch.setattr(recognition, "transcribe", lambda *_given: heard.pop(0))
    with visit(chromium, serve(engine, storage), **PHONE) as page:
        device = InputDevice(page)
        expect(picker(page)).to_have_value("Ann")
        take = speak_text_with_pause_twice(page, device, engine)
        export_and_import_pronunciations(page, device, storage, tmp_path)
        speak_and_proof_book(page, device, tmp_path, ready)
        save_book(page, device)
        assert heard == []
        check_file(page, device, tmp_path, take)
        expect_large_targets(page)
    assert [script.cards for script in storage.scripts.list()] == [90, 4]


def speak_text_with_pause_twice(page: Page, device: InputDevice, engine: FakeEngine) -> bytes:
    """Return the kept take as a WAV."""
    field = page.get_by_label("Text to speak")
    field.fill("We walked. ")
    device.press(page.locator(".rp-pauses summary"))
    device.button("0.5 s", page.locator(".rp-pauses"))
    expect(field).to_have_value("We walked. [pause:0.5] ")
    expect(field).to_be_focused()
    page.keyboard.type("And back.")
    page.locator(".rp-at-once").select_option("2")
    device.button("Speak")
    expect(page.locator(".rp-group-take")).to_have_count(2)
    wait_for(page, "player.finished")
    assert {text for text, *_ in engine.asked} == {"We walked. [pause:0.5] And back."}
    for name, take in zip("AB", page.locator(".rp-group-take").all(), strict=True):
        device.button(f"Play take {name}")
        expect(take).to_have_attribute("aria-pressed", "true")
    device.button("Keep B, delete the others")
    row = page.locator(".rp-take").first
    if row.locator(".rp-take-more").get_attribute("open") is None:
        device.press(row.locator(".rp-take-more > summary"))
    device.press(row.locator(".rp-menu summary"))
    name, file = device.save(row.get_by_role("button", name="Download WAV"))
    assert violations(page, "#rp-takes") == []
    assert name.endswith(".wav")
    return file


def export_and_import_pronunciations(page: Page, device: InputDevice, storage: Storage, folder: Path) -> None:
    device.button("Pronunciation")
    dialog = page.get_by_role("dialog", name="Pronunciation")
    page.get_by_label("Word", exact=True).fill("SQL")
    page.get_by_label("Say it like").fill("sequel")
    device.press(dialog.locator(".rp-dialog-save"))
    expect(dialog.locator("tbody tr")).to_have_count(1)
    name, file = device.save(dialog.get_by_role("button", name="Export CSV"))
    assert name.endswith(".csv")
    assert file.startswith(codecs.BOM_UTF8)  # by which spreadsheets recognise UTF-8
    lines = list(csv.reader(io.StringIO(file.decode("utf-8-sig"))))
    assert lines[1][:2] == ["SQL", "sequel"]
    more = folder / "words.csv"
    more.write_text("\n".join(",".join(line) for line in [lines[0], ["GIF", "jif", *lines[1][2:]]]), "utf-8")
    device.choose_file(dialog.get_by_role("button", name="Import CSV"), more)
    expect(dialog.locator("tbody tr")).to_have_count(2)
    assert storage.pronunciations.list() == [Pronunciation("GIF", "jif"), Pronunciation("SQL", "sequel")]
    assert violations(page, ".rp-dictionary") == []
    device.press(dialog.locator(".rp-dialog-close"))
    expect(dialog).to_be_hidden()


def speak_and_proof_book(page: Page, device: InputDevice, folder: Path, ready: list[bool]) -> None:
    """The last card is repaired by hand, after the script was opened again. ready: whether transcripts are enabled."""
    book = folder / "book.epub"
    cover = '<item id="c" href="c.png" media-type="image/png" properties="cover-image"/>'
    named: dict[str, Any] = {
        "items": cover,
        "metadata": "<dc:creator>Ann Writer</dc:creator>",
        "OEBPS/c.png": picture(),
    }
    chapters = ["<p>All rights reserved.</p>", *CHAPTERS]
    book.write_bytes(epub(chapters, ["Copyright", "The River", "The Harbour"], "Two Places", **named))
    open_tab(page, "Script")
    expect(page.get_by_text("No scripts yet.")).to_be_visible()
    new = page.get_by_label("Text of the new script")
    new.evaluate("field => field.addEventListener('input', () => (field.inputs = (field.inputs ?? 0) + 1))")
    device.button("Try a dialogue")
    assert new.input_value().startswith("Clara: ")
    assert new.evaluate("field => field.inputs") == 1
    device.choose_file(page.locator("#rp-script-upload"), book)
    expect(page.get_by_label("Name of the script")).to_have_value("Two Places")
    expect(page.get_by_role("heading", name="The Harbour")).to_be_visible()
    expect(page.get_by_label("Author")).to_have_value("Ann Writer")
    delete_first_chapter(page, device)
    expect(page.get_by_role("button", name="Check and fix")).to_be_hidden()
    device.press(page.get_by_label("Listen along"), "Space")
    device.button("Speak all")
    expect(page.locator(".rp-script-status")).to_contain_text("Cards spoken: 4 of 4")
    offset = text_offset(page, 4)
    device.button("Check and fix")
    expect(page.get_by_role("dialog", name="Automatic transcripts")).to_contain_text("operator can enable them")
    ready[0] = True
    page.keyboard.press("Escape")
    device.button("Check and fix")
    expect(page.get_by_text("Every word matches the text.")).to_have_count(3)
    expect(card(page, 4).locator("mark")).to_have_text("there.")
    expect(card(page, 4)).to_contain_text(f"Recognised: “{WRONG}”")
    expect(card(page, 4).get_by_role("button", name="Fix")).to_be_visible()
    expect(page.locator(".rp-script-status")).to_contain_text("with wrong words: 1")
    assert text_offset(page, 4) == offset, "the results are below the text"
    expect(page.get_by_label("The Harbour")).to_be_visible()
    assert violations(page, ".rp-scripts") == []
    device.press(page.get_by_role("button", name="All scripts"))
    device.button("Two Places")  # the page keeps nothing of it
    expect(card(page, 4).locator("mark")).to_have_text("there.")
    device.button("Fix", card(page, 4))
    expect(page.get_by_text("Every word matches the text.")).to_have_count(4)
    expect(page.locator(".rp-script-status")).not_to_contain_text("wrong words")


def delete_first_chapter(page: Page, device: InputDevice) -> None:
    """It is deleted with the next action, whose result depends on it."""
    chapters = page.locator(".rp-script-chapters")
    remove = chapters.locator(".rp-script-chapters-remove")
    expect(remove).to_be_hidden()  # the buttons below are on the screen of a phone
    device.press(chapters.get_by_text("Chapters: 3"))
    expect(remove).to_be_disabled()
    device.press(chapters.get_by_label("All chapters"), "Space")
    expect(remove).to_be_disabled()
    device.press(chapters.get_by_label("The River"), "Space")
    device.press(chapters.get_by_label("The Harbour"), "Space")
    device.button("Delete the chapters that are not ticked: 1")
    expect(page.get_by_role("heading", name="Copyright")).to_be_hidden()
    device.button("Undo", chapters)
    expect(page.get_by_role("heading", name="Copyright")).to_be_visible()
    device.button("Delete the chapters that are not ticked: 1")
    expect(page.get_by_role("heading", name="Copyright")).to_be_hidden()


def save_book(page: Page, device: InputDevice) -> None:
    device.press(page.get_by_text("Save as", exact=True))
    name, file = device.save(page.get_by_role("button", name="M4B"))
    with av.open(io.BytesIO(file)) as book:
        assert (name, book.metadata["artist"]) == ("Two Places.m4b", "Ann Writer")
        assert [chapter["metadata"]["title"] for chapter in book.chapters()] == ["The River", "The Harbour"]
        assert (book.streams.video[0].width, book.streams.video[0].height) == (300, 400)


def check_file(page: Page, device: InputDevice, folder: Path, file: bytes) -> None:
    ours = folder / "take.wav"
    ours.write_bytes(file)
    open_tab(page, "Status")
    device.choose_file(page.locator(".rp-check-choose"), ours)
    result = page.locator(".rp-check-result")
    expect(result).to_contain_text("Made with Reprise")
    expect(result).to_contain_text("Voice: Ann.")
    assert violations(page, ".rp-checker") == []


def expect_large_targets(page: Page) -> None:
    """Check the touch targets of all tabs, with a take, a long text, a script and a clip."""
    open_tab(page, "Speak")
    notice = page.locator(".rp-model-notice summary")
    expect(notice).to_have_text(NOTICE)
    assert notice.evaluate("node => node.scrollHeight <= node.clientHeight"), "the whole notice is shown"
    notice.click()

    page.evaluate("message => window.reprisePlayer.refuse(message)", NOTICE[:100])
    wide = page.locator(".rp-status").evaluate("status => status.clientWidth > innerWidth / 2")
    assert wide, "a problem beside a loaded take is not squeezed"
    page.evaluate("window.reprisePlayer.clearMessage()")
    page.get_by_text("Advanced").click()
    expect(page.get_by_label("Temperature").first).to_be_visible()
    assert small_targets(page) == [], "Speak"

    offer = page.get_by_role("button", name="Make a script of it")
    expect(offer).to_be_hidden()
    page.get_by_label("Text to speak").fill("It rained all day. " * 270)
    expect(page.get_by_text("The text has more than 5,000 characters.")).to_be_visible()
    offer.click()
    expect(page.get_by_role("tab", name="Script", exact=True)).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("button", name="Speak all")).to_be_visible()
    expect(page.locator(".rp-script-open")).to_be_focused()
    assert small_targets(page) == [], "Script, with a script open"
    page.get_by_role("button", name="All scripts").click()
    expect(page.get_by_text("Cards spoken: 0 of 90").first).to_be_visible()
    assert small_targets(page) == [], "Script"

    open_tab(page, "New voice")
    page.locator(".rp-file").set_input_files(CLIP)
    expect(page.get_by_label("The words in this clip")).to_be_visible()
    assert small_targets(page) == [], "New voice"
    for tab in ("Library", "History", "Status"):
        open_tab(page, tab)
        page.wait_for_load_state("networkidle")
        assert small_targets(page) == [], tab
    assert page.evaluate(SMALL_TEXTS) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390, "the page does not scroll sideways"
    open_tab(page, "Speak")
    expect(page.get_by_label("Text to speak")).to_have_value("")


def small_targets(page: Page) -> list[Any]:
    found: list[Any] = page.evaluate(SMALL_TARGETS, LEAST)
    return found


def test_idle_model_is_unloaded_and_loaded_again(
    serve: Serve, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = storage.voices.add(voice("Ann"))
    clock, managers = Clock(), list[ModelManager]()

    def managed(engine: Any) -> ModelManager:
        idle = IdleUnload(600.0, "fake", lambda _model, _report: FakeEngine(), lambda: None)  # type: ignore[arg-type, return-value]
        managers.append(ModelManager(engine, idle=idle, clock=clock))
        return managers[-1]

    monkeypatch.setattr(conftest, "ModelManager", managed)
    visitor = Visitor(serve(FakeEngine(), storage))
    visitor.arrive()
    clock.now += 600
    until(managers[-1].unload_idle)
    (board,) = visitor.event("refresh", "rp-status", [])
    assert (board["name"], board["asleep"], board["idle"]) == ("fake", True, 600)
    assert visitor.speak("Hello again.", ann.id)["stop_reason"] == "end"
    (board,) = visitor.event("refresh", "rp-status", [])
    assert not board["asleep"]
