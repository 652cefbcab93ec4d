"""The Script tab in a browser: a dialogue from the pasted text to the saved file, with a reload in between."""

import io
from collections.abc import Callable
from pathlib import Path

import av
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, Position, expect
from pyloudnorm import Meter

from storage import Storage
from tests.studio.script.test_runner import Actor
from tests.support.fake_engine import SAMPLE_RATE, voice
from tests.support.waiting import until
from tests.web.conftest import read_wav
from tests.web.visiting import downloaded, finish_deletions, hold_response, open_tab, visit
from tests.web.visitor import Visitor
from web.downloads.sounds import sound_id

Serve = Callable[..., str]
PLAY = """Ann: Good morning! Did you sleep?
Ben: Not at all.

They went down to the harbour. <b>Nobody</b> was there.

Ann: The boats come back.
Ben: So early?"""
HELD = "They went down to the harbour. <b>Nobody</b> was there."
# Whether the page knows that the card that is edited has this text in the script.
SAVED = "text => document.activeElement.closest('.rp-script-card').view.card.text === text"
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


def save(page: Page, format: str) -> tuple[str, bytes]:
    tab(page).get_by_text("Save as").click()
    return downloaded(page, button(page, format))


def test_dialogue_from_casting_to_download(
    chromium: Browser, serve: Serve, storage: Storage, actor: Actor, tmp_path: Path
) -> None:
    actor.hold(HELD)
    with visit(chromium, serve(actor, storage)) as page:
        page.evaluate(HEARD)
        make(page, PLAY)
        expect(text(page, 3)).to_have_value(HELD)
        expect(tab(page).get_by_label("Name of the script")).to_have_value("Good morning! Did you sleep?")
        expect(tab(page).get_by_label("Voice of Ben").locator("option:checked")).to_have_text("Ben")
        tab(page).get_by_label("Voice of Narrator").select_option("Ben")
        expect(tab(page).get_by_label("Voice of card 2", exact=True).locator("option:checked")).to_have_text("Ben")
        ids = [each.id for each in storage.scripts.cards(storage.scripts.list()[0].id)]

        button(page, "Speak all").click()
        expect_state(page, 5, "spoken")
        expect_state(page, 3, "being spoken")
        expect(tab(page).get_by_text("Cards spoken: 4 of 5")).to_be_visible()
        assert [v.name for t, v, _ in actor.asked if v and t in (HELD, "Not at all.")] == ["Ben", "Ben"]
        page.wait_for_function("window.heard.length === 2", polling=100)  # playback then waits for the third
        page.reload()
        expect_state(page, 3, "being spoken")
        expect_state(page, 4, "spoken")
        expect(button(page, "Stop speaking")).to_be_visible()
        actor.gates[HELD].set()
        expect_state(page, 3, "spoken")
        expect(tab(page).get_by_text("Cards spoken: 5 of 5")).to_be_visible()
        expect(tab(page).get_by_role("progressbar", name="Cards that are spoken")).to_be_hidden()

        button(page, "Speak card 2 again").click()
        until(lambda: len(storage.scripts.takes(ids[1])) == 2)
        expect_state(page, 2, "spoken")
        offset = text_offset(page, 2)
        text(page, 2).select_text()
        expect(card(page, 2).get_by_role("button", name="Say “Not at all” like…")).to_be_visible()
        button(page, "More for card 2").click()
        expect(card(page, 2).get_by_text("Take 1 ·")).to_be_visible()
        assert text_offset(page, 2) == offset, "the text keeps its place"
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
        expect(text(page, 4)).to_have_value("So early?")
        fourth, fifth = text(page, 4).input_value(), text(page, 5).input_value()
        grip = card(page, 5).locator(".rp-script-card-grip")
        grip.drag_to(card(page, 4), target_position=Position(x=30, y=2), force=True)  # it is visible on hover only
        expect(text(page, 4)).to_have_value(fifth)
        expect(text(page, 5)).to_have_value(fourth)
        text(page, 4).focus()
        page.keyboard.press("Alt+ArrowDown")
        expect(text(page, 4)).to_have_value("So early?")

        card(page, 1).get_by_label("Speed of this card").fill("1.25")
        card(page, 1).get_by_label("Chapter that begins here").fill("The morning")
        card(page, 1).get_by_label("Chapter that begins here").press("Enter")
        expect(card(page, 1).get_by_role("heading", name="The morning")).to_be_visible()
        tab(page).get_by_label("Pause after paragraphs, in seconds").fill("0.3")
        tab(page).get_by_label("Pause after paragraphs, in seconds").press("Enter")
        until(lambda: storage.scripts.list()[0].paragraph_pause == 0.3)
        until(lambda: storage.scripts.card(ids[1]).speed == 1.25)

        page.route("**/reprise/files/*", lambda route: route.fulfill(body="no sound"))
        button(page, "Play all").click()
        expect(page.locator("#rp-dock .rp-status")).to_contain_text("This cannot be played: it is not a 16-bit WAV")
        page.unroute_all()

        page.evaluate(HEARD)
        button(page, "Play all").click()
        takes = [
            sound_id(str(each.take_id), each.speed) for each in storage.scripts.cards(storage.scripts.list()[0].id)
        ]
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

        cards = storage.scripts.cards(storage.scripts.list()[0].id)
        assert [each.id for each in cards] == [ids[1], ids[0], ids[2], ids[4], ids[3]]
        seconds = sum(each.seconds or 0 for each in cards) + sum(each.pause for each in cards[:-1])
        tab(page).get_by_text("Save as").click()
        page.locator(".rp-script-formats").get_by_label("Loudness of downloads").select_option("16")
        name, wav = downloaded(page, button(page, "WAV"))
        samples, rate = read_wav(wav)
        assert (name, rate) == ("Good morning! Did you sleep_.wav", SAMPLE_RATE)
        assert len(samples) / rate == pytest.approx(seconds, abs=0.01)
        assert Meter(rate).integrated_loudness(samples / 32768) == pytest.approx(-16, abs=0.5)
        picture = tmp_path / "cover.png"
        Image.new("RGB", (1500, 900), "teal").save(picture)
        tab(page).get_by_text("Save as").click()
        tab(page).get_by_label("Cover of the M4B").set_input_files(picture)
        name, book = downloaded(page, button(page, "M4B"))
        assert (name, book[4:12]) == ("Good morning! Did you sleep_.m4b", b"ftypM4B ")
        with av.open(io.BytesIO(book)) as read:
            cover = read.streams.video[0]
            assert (cover.width, cover.height) == (1000, 600), "the page scales the cover down"
        picture.write_text("no picture")
        tab(page).get_by_text("Save as").click()
        tab(page).get_by_label("Cover of the M4B").set_input_files(picture)
        button(page, "M4B").click()
        expect(tab(page).get_by_role("alert").filter(has_text="This cover is not a picture")).to_be_visible()
        name, srt = save(page, "SRT")
        times = [line for line in srt.decode().splitlines() if "-->" in line]
        assert name.endswith(".srt")
        assert len(times) == 5
        end = times[-1].split(" --> ")[1]
        hours, minutes, rest = end.replace(",", ".").split(":")
        assert int(hours) * 3600 + int(minutes) * 60 + float(rest) == pytest.approx(seconds, abs=0.01)


def test_cards_are_added_split_joined_and_failures_are_shown(
    chromium: Browser, serve: Serve, storage: Storage, actor: Actor, tmp_path: Path
) -> None:
    file = tmp_path / "A film.srt"
    file.write_text(
        "1\n00:00:01,000 --> 00:00:02,000\nHello there. How are you?\n\n2\n00:00:04,000 --> 00:00:05,000\nFine.\n"
    )
    (tmp_path / "A film.mov").write_bytes(b"pictures")
    with visit(chromium, serve(actor, storage), viewport={"width": 390, "height": 844}) as page:
        open_tab(page, "Script")
        with page.expect_file_chooser() as chooser:
            button(page, "Choose a file").click()
        assert ".srt" in str(chooser.value.element.get_attribute("accept"))
        chooser.value.set_files(tmp_path / "A film.mov")
        expect(page.locator("#rp-script-notice")).to_contain_text("choose one whose name ends in .txt, .md")
        with page.expect_file_chooser() as chooser:
            button(page, "Choose a file").click()
        chooser.value.set_files(file)
        expect(text(page, 1)).to_have_value("Hello there. How are you?")
        expect(tab(page).get_by_label("Name of the script")).to_have_value("A film")
        button(page, "More for card 1").click()
        expect(card(page, 1).get_by_label("Pause after this card, in seconds")).to_have_value("2")
        # A refused value gives way to the stored one.
        for label, stored, refused, key in (
            ("Speed of this card", "1", "3", "Tab"),
            ("Pause after paragraphs, in seconds", "0.6", "70", "Enter"),
            ("Name of the script", "A film", " ", "Enter"),
        ):
            tab(page).get_by_label(label).fill(refused)
            page.keyboard.press(key)
            expect(tab(page).get_by_label(label)).to_have_value(stored)
            expect(tab(page).get_by_role("alert")).to_be_visible()
        card(page, 1).get_by_role("button", name="Split at the cursor").click()
        expect(text(page, 2)).to_have_value("How are you?")
        card(page, 1).get_by_role("button", name="Add a card below").click()
        expect(text(page, 2)).to_be_focused()
        page.keyboard.type("Refuse this one.")
        # The key that ends the conversion of what was typed, as Safari sends it.
        text(page, 2).dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "bubbles": True})
        expect(text(page, 2)).to_be_focused()
        page.keyboard.press("Enter")
        expect(text(page, 3)).to_have_value("How are you?")
        until(lambda: "Refuse this one." in [each.text for each in storage.scripts.cards(storage.scripts.list()[0].id)])
        actor.errors["Refuse this one."] = [ValueError("a mistake of ours")]
        button(page, "Speak all").click()
        expect_state(page, 4, "spoken")
        expect_state(page, 2, "failed")
        expect(card(page, 2)).to_contain_text("through no fault of yours")
        text(page, 2).fill(" ")
        text(page, 2).blur()
        expect(tab(page).get_by_role("alert").filter(has_text="A card needs something to say")).to_be_visible()
        expect(text(page, 2)).to_have_value("Refuse this one.")
        text(page, 2).fill("Now it is better.")
        page.keyboard.press("Enter")
        button(page, "Speak the rest").click()
        expect_state(page, 2, "spoken")
        expect(button(page, "Stop speaking")).to_be_hidden()
        tab(page).get_by_text("Save as").click()
        menu = page.locator(".rp-script-formats").bounding_box()
        assert menu
        assert menu["x"] >= 0
        assert menu["x"] + menu["width"] <= 390
        tab(page).get_by_text("Save as").click()
        button(page, "More for card 3").click()
        card(page, 3).get_by_role("button", name="Join with the next").click()
        expect(text(page, 3)).to_have_value("How are you? Fine.")
        button(page, "More for card 2").click()
        card(page, 2).get_by_role("button", name="Delete", exact=True).click()
        card(page, 2).get_by_role("button", name="Undo").press("Enter")
        expect(text(page, 2)).to_have_value("Now it is better.")
        card(page, 2).get_by_role("button", name="Delete", exact=True).click()
        button(page, "Speak the rest").click()  # the next action no longer includes the deleted card
        expect(text(page, 2)).to_have_value("How are you? Fine.")
        expect(button(page, "Stop speaking")).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") == 390

        # The cursor keeps its place when the saved text is trimmed, before the click on Split and after it. A text that
        # was saved while it was typed is trimmed when the field is left.
        for saved, written in ((True, " First. Second. Third. Fourth."), (False, " First. Second. Third.")):
            text(page, 2).fill(written)
            text(page, 2).evaluate("(field, place) => field.setSelectionRange(place, place)", written.rindex(" ") + 1)
            if saved:
                page.wait_for_function(SAVED, arg=written.strip(), polling=100)
                text(page, 2).blur()
                expect(text(page, 2)).to_have_value(written.strip())
            card(page, 2).get_by_role("button", name="Split at the cursor").click()
            expect(text(page, 2)).to_have_value(written.rpartition(" ")[0].strip())
        expect(text(page, 3)).to_have_value("Third.")
        expect(text(page, 4)).to_have_value("Fourth.")

        # Change the pronunciation of a selected word.
        say = page.get_by_role("button", name="Say “Hello” like…")
        text(page, 1).evaluate("field => { field.focus(); field.setSelectionRange(0, 5); }")
        expect(card(page, 1).locator(say)).to_be_visible()
        page.keyboard.press("Tab")
        expect(card(page, 1).locator(say)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_label("Word", exact=True)).to_have_value("Hello")
        page.keyboard.type("hullo")
        page.keyboard.press("Enter")
        expect(page.locator(".rp-dictionary tbody tr")).to_have_count(1)
        page.keyboard.press("Escape")
        card(page, 1).get_by_role("button", name="Speak card 1 again").click()
        until(lambda: actor.said[-1] == "hullo there.")
        expect_state(page, 1, "spoken")

        tab(page).get_by_label("Name of the script").fill("A better name")
        page.keyboard.press("Tab")
        tab(page).get_by_role("button", name="All scripts").click()
        button(page, "A better name").click()
        expect(text(page, 1)).to_have_value("Hello there.")
        tab(page).get_by_role("button", name="All scripts").click()
        button(page, "Discard “A better name”").click()
        button(page, "Undo").click()
        button(page, "Discard “A better name”").click()
        finish_deletions(page)
        expect(tab(page).get_by_role("status").filter(has_text="“A better name” is discarded.")).to_be_visible()
        assert storage.scripts.list() == []


def test_text_deletions_and_stops_reach_the_server_and_other_pages(
    chromium: Browser, serve: Serve, storage: Storage, actor: Actor
) -> None:
    """Text is saved while it is typed, before the field loses focus, and also when the page is left at once."""
    actor.hold("Good evening!")

    def saved() -> list[str]:
        return [each.text for each in storage.scripts.cards(script.id)]

    def delete(number: int) -> None:
        button(page, f"More for card {number}").click()
        card(page, number).get_by_role("button", name="Delete", exact=True).click()

    url = serve(actor, storage)
    with visit(chromium, url) as page:
        make(page, PLAY)
        expect(text(page, 5)).to_be_visible()
        (script,) = storage.scripts.list()
        field = card(page, 1).locator("textarea")
        field.click()
        field.press("End")
        field.press_sequentially(" To")
        until(lambda: saved()[0].endswith("sleep? To"))
        field.press_sequentially(" you")
        page.reload()
        expect(field).to_have_value("Good morning! Did you sleep? To you")
        assert saved()[0] == "Good morning! Did you sleep? To you"
        field.click()
        field.press("End")
        with hold_response(page, "To you!", lambda: field.press_sequentially("!")):
            assert saved()[0].endswith("To you!")
            field.press("Escape")  # the page does not know yet that the text was saved
        until(lambda: saved()[0].endswith("To you"))
        expect(field).to_have_value("Good morning! Did you sleep? To you")

        # Cards are deleted while others are edited.
        delete(2)
        delete(3)
        delete(4)
        field.fill("Good evening!")
        card(page, 4).get_by_role("button", name="Undo").click()  # this sends the text and deletes nothing
        expect(text(page, 4)).to_be_visible()
        until(lambda: saved()[0] == "Good evening!")
        assert len(saved()) == 5
        button(page, "Move card 5 up").click()  # moves past the fourth card, not the third
        until(lambda: saved() == ["Good evening!", "So early?", "The boats come back."])
        expect(text(page, 3)).to_have_value("The boats come back.")

        # Another page of the owner stops the speech.
        tab(page).get_by_label("Listen along").uncheck()
        button(page, "Speak all").click()
        expect_state(page, 3, "spoken")
        expect_state(page, 1, "being spoken")
        second = Visitor(url)
        second.arrive()
        stop = {"number": 1, "do": "stop", "script": script.id, "version": "", "values": {}}
        second.event("act", "rp-script-editor", [second.token], sent=stop)
        expect_state(page, 1, "not spoken yet")
        expect_state(page, 3, "spoken")

        delete(1)
        delete(2)
        tab(page).get_by_role("button", name="All scripts").click()
        until(lambda: len(saved()) == 1)
        page.get_by_role("button", name=script.name, exact=True).click()
        expect(text(page, 1)).to_have_value("The boats come back.")
        expect(card(page, 2)).to_have_count(0)
