"""The Script tab in a browser: a dialogue from the pasted text to the saved file, with a reload and another page."""

import io
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock
from zipfile import ZipFile

import av
import pytest
from playwright.sync_api import Browser, Locator, Page, Position, expect
from pyloudnorm import Meter

from storage import Storage
from storage.errors import TakeNotFound
from studio.script import parse
from tests.studio.books.making import picture
from tests.studio.script.test_runner import Actor
from tests.support.fake_engine import SAMPLE_RATE, voice
from tests.support.waiting import until
from tests.web.conftest import read_wav
from tests.web.visiting import downloaded, hold_response, open_tab, visit
from tests.web.visitor import Visitor
from web.downloads.sounds import sound_id

Serve = Callable[..., str]
PLAY = """Ann: Good morning! Did you sleep?
Ben: Not at all.

They went down to the harbour. <b>Nobody</b> was there.

Ann: The boats come back.
Ben: So early?"""
HELD = "They went down to the harbour. <b>Nobody</b> was there."
LATE = "Good evening!"
# Records the ids of played sounds, in order.
HEARD = """
  window.heard = [];
  document.addEventListener("reprise:playing", ({ detail }) => window.heard.push(detail.id));
"""


@pytest.fixture
def actor(storage: Storage) -> Actor:
    for name in ("Ann", "Ben"):
        storage.voices.add(voice(name))
    made = Actor()
    made.script.seconds_per_character = 0.01
    return made


def tab(page: Page) -> Locator:
    """Return the tab, because searching the whole page for a role or label takes ten times as long."""
    return page.locator("#rp-tab-script")


def button(page: Page, name: str) -> Locator:
    return tab(page).get_by_role("button", name=name, exact=True)


def make(page: Page, text: str) -> None:
    open_tab(page, "Script")
    tab(page).get_by_label("Text of the new script").fill(text)
    button(page, "Make cards").click()


def card(page: Page, number: int) -> Locator:
    return page.locator(".rp-script-cards").get_by_role("listitem", name=f"Card {number}", exact=True)


def expect_state(page: Page, number: int, text: str) -> None:
    expect(card(page, number).locator(".rp-script-card-state")).to_have_text(text)


def text(page: Page, number: int) -> Locator:
    return page.locator(".rp-script-cards").get_by_label(f"Text of card {number}", exact=True)


def text_offset(page: Page, number: int) -> float:
    """Return the distance from the top of a card to its text, in pixels."""
    offset: float = text(page, number).evaluate(
        "field => field.getBoundingClientRect().y - field.closest('li').getBoundingClientRect().y"
    )
    return offset


def test_dialogue_from_casting_to_download_and_deletions_and_stops_of_another_page(
    chromium: Browser, serve: Serve, storage: Storage, actor: Actor, tmp_path: Path
) -> None:
    actor.hold(HELD, LATE)
    url = serve(actor, storage)
    with visit(chromium, url) as page:
        page.evaluate(HEARD)
        make(page, PLAY)
        expect(text(page, 3)).to_have_value(HELD)
        expect(tab(page).get_by_label("Name of the script")).to_have_value("Good morning! Did you sleep?")
        expect(tab(page).get_by_role("region", name="Good morning! Did you sleep?")).to_be_focused()
        expect(tab(page).get_by_label("Voice of Ben").locator("option:checked")).to_have_text("Ben")
        tab(page).get_by_label("Voice of Narrator").select_option("Ben")
        expect(tab(page).get_by_label("Voice of card 2", exact=True).locator("option:checked")).to_have_text("Ben")
        speaker = tab(page).get_by_label("Speaker of card 2", exact=True)
        expect(speaker).to_have_css("text-align", "left")  # also an Arabic name
        (script,) = storage.scripts.list()
        ids = [each.id for each in storage.scripts.cards(script.id)]
        set_author_and_cover(page, storage, tmp_path)
        speak_with_reload(page, storage, actor)
        choose_lock_and_move(page, storage, ids)
        takes = set_speed_chapter_and_pause(page, storage, ids)
        play_all(page, takes)
        save_files(page, storage, ids, tmp_path)
        delete_cards_while_editing(page, storage)
        stop_from_another_page(page, url, script.id)
        delete(page, 2)
        card(page, 3).get_by_role("button", name="Delete", exact=True).click()  # its other actions are still shown
        tab(page).get_by_role("button", name="All scripts").click()
        until(lambda: len(saved(storage)) == 1)
        expect(page.get_by_role("button", name="The harbour", exact=True)).to_be_focused()
        page.keyboard.press("Enter")
        expect(text(page, 1)).to_have_value("Not at all.")
        expect(card(page, 2)).to_have_count(0)
        tab(page).get_by_label("Name of the script").press("!")
        storage.scripts.discard(script.id)  # as another page does
        page.evaluate("window.repriseScript.refresh()")
        expect(tab(page).get_by_role("status").filter(has_text="“The harbour” is discarded.")).to_be_visible()
        expect(page.locator("#rp-script-text textarea")).to_be_focused()
        open_from_scrolled_list(page, storage)


def open_from_scrolled_list(page: Page, storage: Storage) -> None:
    """The heading of a long script is on the screen, although the list before it was scrolled."""
    storage.scripts.create("Long", parse("\n\n".join("Good morning." for _ in range(40))).cards, voice_id=None)
    for number in range(20):
        storage.scripts.create(f"Other {number}", parse("Hello.").cards, voice_id=None)
    page.evaluate("window.repriseScript.refresh()")
    page.set_viewport_size({"width": 390, "height": 300})
    page.get_by_role("button", name="Long", exact=True).evaluate("line => line.scrollIntoView()")
    page.get_by_role("button", name="Long", exact=True).click()
    expect(tab(page).get_by_role("region", name="Long")).to_be_focused()
    expect(tab(page).get_by_role("button", name="All scripts")).to_be_in_viewport()

    # The list takes the focus only if nothing else has got it meanwhile.
    storage.scripts.create("Newest", parse("Hello.").cards, voice_id=None)
    field = page.locator("#rp-script-text textarea")
    with hold_response(page, "Newest", tab(page).get_by_role("button", name="All scripts").click):
        field.fill("It is late.")
    expect(page.get_by_role("button", name="Newest", exact=True)).to_be_visible()
    expect(field).to_be_focused()
    with hold_response(page, '"show"', button(page, "Make cards").click):
        field.press("End")
        page.keyboard.type(" Good night.")
    expect(tab(page).get_by_label("Name of the script")).to_have_value("It is late.")
    expect(field).to_have_value("It is late. Good night.")

    # So does what is pasted; and a script that was opened before the answer stays open.
    tab(page).get_by_role("button", name="All scripts").click()
    with ExitStack() as refreshed, hold_response(page, '"show"', button(page, "Make cards").click):
        field.press("End")
        page.keyboard.insert_text(" Sleep well.")
        page.get_by_role("button", name="Newest", exact=True).click()
        text(page, 1).click()
        refreshed.enter_context(page.expect_request(lambda sent: '"do":"open"' in (sent.post_data or "")))
    expect(text(page, 1)).to_be_focused()
    expect(field).to_have_value("It is late. Good night. Sleep well.")

    # A new card takes the focus, unless the user is in another field by then.
    below = card(page, 1).get_by_role("button", name="Add a card below")
    button(page, "More for card 1").click()
    with hold_response(page, "Write the text", below.click):
        text(page, 1).focus()
    expect(text(page, 2)).to_be_visible()
    expect(text(page, 1)).to_be_focused()
    below.click()
    expect(text(page, 2)).to_be_focused()


def saved(storage: Storage) -> list[str]:
    """Return the texts of the only script."""
    return [each.text for each in storage.scripts.cards(storage.scripts.list()[0].id)]


def delete(page: Page, number: int) -> None:
    button(page, f"More for card {number}").click()
    card(page, number).get_by_role("button", name="Delete", exact=True).click()


def set_author_and_cover(page: Page, storage: Storage, folder: Path) -> None:
    """Set what the reloaded page and the saved book must have."""
    file = folder / "cover.png"
    file.write_bytes(picture("PNG", 1500, 900))
    tab(page).get_by_text("Save as").click()
    cover = tab(page).get_by_role("group", name="Cover of the audio book")
    order = "(choose, file) => choose.compareDocumentPosition(file) === Node.DOCUMENT_POSITION_FOLLOWING"
    book = tab(page).get_by_role("button", name="Audio book (M4B)").element_handle()
    for field in (
        cover.get_by_role("button", name="Choose a picture"),
        tab(page).get_by_label("Loudness of downloads"),
    ):
        assert field.evaluate(order, book), "what goes into a file comes before its button, which downloads it"
    expect(cover.get_by_role("button", name="Remove the picture")).to_be_hidden()
    cover.locator("input").set_input_files(file)
    expect(cover.locator("img")).to_have_js_property("naturalWidth", 1000)
    author = tab(page).get_by_label("Author")
    author.fill("Ann Writer")
    author.press("Enter")
    until(lambda: storage.scripts.list()[0].author == "Ann Writer")
    page.keyboard.press("Escape")


def speak_with_reload(page: Page, storage: Storage, actor: Actor) -> None:
    """Speak all cards; text is saved while it is typed, before the field loses focus, and when the page is left.

    Other fields are saved when they or the page are left. What the server has not stored by then is saved when the page
    is open again.
    """
    name, pause = (
        tab(page).get_by_label("Name of the script"),
        tab(page).get_by_label("Pause after paragraphs, in seconds"),
    )
    button(page, "Speak all").click()
    expect(button(page, "Stop speaking")).to_be_focused()
    expect_state(page, 5, "spoken")
    expect_state(page, 3, "being spoken")
    expect(tab(page).get_by_text("Cards spoken: 4 of 5")).to_be_visible()
    expect(tab(page).get_by_text("Cards spoken: 4 of 5")).to_have_attribute("aria-live", "off")
    assert [v.name for t, v, _ in actor.asked if v and t in (HELD, "Not at all.")] == ["Ben", "Ben"]
    page.wait_for_function("window.heard.length === 2", polling=100)  # playback then waits for the third
    field = text(page, 5)
    field.click()
    field.press("End")
    field.press_sequentially(" To")
    until(lambda: saved(storage)[4] == "So early? To")
    field.press_sequentially(" yo")
    page.reload()
    expect_state(page, 3, "being spoken")
    expect_state(page, 4, "spoken")
    expect(field).to_have_value("So early? To yo")
    assert saved(storage)[4] == "So early? To yo"
    expect(tab(page).get_by_label("Author")).to_have_value("Ann Writer")
    page.evaluate("() => { window.fetch = () => new Promise(() => {}); }")  # no request arrives
    name.fill("The harbour")
    pause.fill("0.7")
    field.press("End")
    field.press_sequentially("u")
    page.reload()
    until(lambda: saved(storage)[4] == "So early? To you")
    expect(field).to_have_value("So early? To you")
    until(lambda: storage.scripts.list()[0].name == "The harbour")
    until(lambda: storage.scripts.list()[0].paragraph_pause == 0.7)
    expect(name).to_have_value("The harbour")
    expect(button(page, "Stop speaking")).to_be_visible()
    actor.gates[HELD].set()
    expect_state(page, 3, "spoken")
    expect(tab(page).get_by_text("Cards spoken: 4 of 5")).to_be_visible()

    field.click()
    field.press("End")
    with hold_response(page, "To you!", lambda: field.press_sequentially("!")):
        assert saved(storage)[4].endswith("To you!")
        field.press("Escape")  # the page does not know yet that the text was saved
    until(lambda: saved(storage)[4].endswith("To you"))
    expect(field).to_have_value("So early? To you")
    field.press("Enter")
    expect(card(page, 5)).to_be_focused()
    button(page, "Speak the rest").click()
    told = tab(page).get_by_role("status").filter(has_text="Cards spoken: 5 of 5")
    expect(told).to_have_attribute("aria-live", "polite")
    expect(button(page, "Play all")).to_be_focused()
    expect(tab(page).get_by_role("progressbar", name="Cards that are spoken")).to_be_hidden()


def choose_lock_and_move(page: Page, storage: Storage, ids: list[str]) -> None:
    button(page, "Speak card 2 again").click()
    until(lambda: len(storage.scripts.takes(ids[1])) == 2)
    expect_state(page, 2, "spoken")
    expect(button(page, "Speak card 2 again")).to_be_focused()
    offset = text_offset(page, 2)
    text(page, 2).select_text()
    expect(card(page, 2).get_by_role("button", name="Say “Not at all” like…")).to_be_visible()
    button(page, "More for card 2").click()
    expect(card(page, 2).get_by_text("Take 1 ·")).to_be_visible()
    assert text_offset(page, 2) == offset, "the text keeps its place"
    with mock.patch.object(storage.history, "get", side_effect=TakeNotFound("The take is gone.")):
        card(page, 2).get_by_role("button", name="Play take 1").click()
        expect(tab(page).get_by_role("alert")).to_have_text("The take is gone.")
    expect(page.locator("#rp-dock .rp-status")).not_to_contain_text("cannot be played")
    card(page, 2).get_by_role("button", name="Use this one").click()
    expect(card(page, 2).get_by_text("in use")).to_have_count(1)
    button(page, "Lock card 2").click()
    expect(text(page, 2)).not_to_be_editable()
    expect(button(page, "Speak card 2 again")).to_be_disabled()
    button(page, "Move card 2 up").focus()
    page.keyboard.press("Enter")
    expect(text(page, 1)).to_have_value("Not at all.")
    expect(button(page, "Move card 1 up")).to_be_focused()
    text(page, 5).focus()
    page.keyboard.press("Alt+ArrowUp")
    expect(text(page, 4)).to_have_value("So early? To you")
    fourth, fifth = text(page, 4).input_value(), text(page, 5).input_value()
    grip = card(page, 5).locator(".rp-script-card-grip")
    grip.drag_to(card(page, 4), target_position=Position(x=30, y=2), force=True)  # it is visible on hover only
    expect(text(page, 4)).to_have_value(fifth)
    expect(text(page, 5)).to_have_value(fourth)
    text(page, 4).focus()
    page.keyboard.press("Alt+ArrowDown")
    expect(text(page, 4)).to_have_value("So early? To you")


def set_speed_chapter_and_pause(page: Page, storage: Storage, ids: list[str]) -> list[str]:
    """Return the ids of the sounds of all cards."""
    speeds = tab(page).get_by_label("Speed of all cards")
    for speed in ("0.8", "1"):
        speeds.fill(speed)
        speeds.press("Enter")
        page.wait_for_function(f"document.querySelector('.rp-script-pace').shown === '{speed}'", polling=100)
        assert {each.speed for each in storage.scripts.cards(storage.scripts.list()[0].id)} == {float(speed)}
    card(page, 1).get_by_label("Speed of this card").fill("1.25")
    card(page, 1).get_by_label("Chapter that begins here").fill("The morning")
    card(page, 1).get_by_label("Chapter that begins here").press("Enter")
    expect(card(page, 1).get_by_role("heading", name="The morning")).to_be_visible()
    tab(page).get_by_label("Pause after paragraphs, in seconds").fill("0.3")
    tab(page).get_by_label("Pause after paragraphs, in seconds").press("Enter")
    until(lambda: storage.scripts.list()[0].paragraph_pause == 0.3)
    until(lambda: storage.scripts.card(ids[1]).speed == 1.25)
    expect(speeds).to_have_value("")  # they differ
    return [sound_id(str(each.take_id), each.speed) for each in storage.scripts.cards(storage.scripts.list()[0].id)]


def play_all(page: Page, takes: list[str]) -> None:
    page.route("**/reprise/files/*", lambda route: route.fulfill(body="no sound"))
    button(page, "Play all").click()
    expect(page.locator("#rp-dock .rp-status")).to_contain_text("This cannot be played: it is not a 16-bit WAV")
    page.unroute_all()

    page.evaluate(HEARD)
    button(page, "Play all").click()
    page.wait_for_function("window.heard.length === 5", polling=100)
    assert page.evaluate("window.heard") == takes
    page.evaluate("document.querySelector('.rp-stop-all').click()")  # the last card may still be playing
    page.wait_for_function("document.querySelector('.rp-stop-all').disabled", polling=100)

    page.evaluate("""() => {
        window.heard = [];
        const record = () => document.dispatchEvent(new CustomEvent("reprise:recording"));
        document.addEventListener("reprise:stopped", record, { once: true });
    }""")
    button(page, "Play all").click()
    page.wait_for_function("window.heard.length && document.querySelector('.rp-stop-all').disabled", polling=100)
    assert page.evaluate("window.heard") == takes[:1], "no card begins while the microphone is open"


def save_files(page: Page, storage: Storage, ids: list[str], tmp_path: Path) -> None:
    cards = storage.scripts.cards(storage.scripts.list()[0].id)
    assert [each.id for each in cards] == [ids[1], ids[0], ids[2], ids[4], ids[3]]
    seconds = sum(each.seconds or 0 for each in cards) + sum(each.pause for each in cards[:-1])
    tab(page).get_by_text("Save as").click()
    page.locator(".rp-script-formats").get_by_label("Loudness of downloads").select_option("16")
    name, wav = downloaded(page, button(page, "WAV"))
    expect(page.locator(".rp-script-saving summary")).to_be_focused()
    samples, rate = read_wav(wav)
    assert (name, rate) == ("The harbour.wav", SAMPLE_RATE)
    assert len(samples) / rate == pytest.approx(seconds, abs=0.01)
    assert Meter(rate).integrated_loudness(samples / 32768) == pytest.approx(-16, abs=0.5)
    tab(page).get_by_text("Save as").click()
    name, archive = downloaded(page, button(page, "Cards as WAV in a .zip"))
    assert (name, len(ZipFile(io.BytesIO(archive)).namelist())) == ("The harbour.wav.zip", len(cards))
    tab(page).get_by_text("Save as").click()
    cover = tab(page).get_by_role("group", name="Cover of the audio book")
    expect(cover.locator("img")).to_have_js_property("naturalWidth", 1000)
    name, book = downloaded(page, button(page, "Audio book (M4B)"))
    assert (name, book[4:12]) == ("The harbour.m4b", b"ftypM4B ")
    with av.open(io.BytesIO(book)) as read:
        shown = read.streams.video[0]
        assert (shown.width, shown.height) == (1000, 600), "the page scales the cover down"
        assert read.metadata["artist"] == "Ann Writer"
    file = tmp_path / "cover.png"
    file.write_text("no picture")
    tab(page).get_by_text("Save as").click()
    cover.locator("input").set_input_files(file)
    expect(tab(page).get_by_role("alert").filter(has_text="This cover is not a picture")).to_be_visible()
    cover.get_by_role("button", name="Remove the picture").click()
    expect(cover.locator("img")).to_be_hidden()
    expect(cover.get_by_role("button", name="Choose a picture")).to_be_focused()
    until(lambda: storage.scripts.list()[0].cover is None)
    page.keyboard.press("Escape")


def delete_cards_while_editing(page: Page, storage: Storage) -> None:
    delete(page, 2)
    delete(page, 3)
    delete(page, 4)
    text(page, 5).fill(LATE)
    card(page, 4).get_by_role("button", name="Undo").click()  # this sends the text and deletes nothing
    expect(text(page, 4)).to_be_visible()
    until(lambda: saved(storage)[4] == LATE)
    assert len(saved(storage)) == 5
    button(page, "Move card 5 up").click()  # moves past the fourth card, not the third
    until(lambda: saved(storage) == ["Not at all.", LATE, "So early? To you"])
    expect(text(page, 3)).to_have_value("So early? To you")


def stop_from_another_page(page: Page, url: str, script: str) -> None:
    tab(page).get_by_label("Listen along").uncheck()
    button(page, "Speak the rest").click()
    expect_state(page, 2, "being spoken")
    second = Visitor(url)
    second.arrive()
    stop = {"number": 1, "do": "stop", "script": script, "version": "", "values": {}}
    second.event("act", "rp-script-editor", [second.token], sent=stop)
    expect_state(page, 2, "not spoken yet")
    expect_state(page, 3, "spoken")
