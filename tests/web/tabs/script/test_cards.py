"""Cards in a browser on a phone: a file is imported, split, joined, corrected, and its script discarded."""

from pathlib import Path

from playwright.sync_api import Browser, Route, expect

from storage import Storage
from tests.studio.script.test_runner import Actor
from tests.support.waiting import until
from tests.web.tabs.script.test_tab import Serve, actor, button, card, expect_state, make, tab, text
from tests.web.visiting import drop, finish_deletions, hold_response, open_tab, refusing, visit

__all__ = ["actor"]  # a fixture
# Whether the page knows that the card that is edited has this text in the script.
SAVED = "text => document.activeElement.closest('.rp-script-card').view.card.text === text"


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
        wrong = tmp_path / "A film.mov"
        page.route("**/upload", lambda route: None)  # it is never answered
        chooser.value.set_files(wrong)
        expect(page.get_by_role("progressbar", name="Uploading “A film.mov”")).to_be_visible()
        button(page, "Cancel").press("Enter")
        expect(tab(page).locator(".rp-script-message:visible")).to_have_text("The upload was cancelled.")
        expect(button(page, "Choose a file")).to_be_focused()
        page.unroute("**/upload")
        with refusing(page, wrong.name):
            chooser.value.set_files(wrong)
        expect(page.locator("#rp-script-notice")).to_be_empty()
        with hold_response(page, "choose one whose name", lambda: chooser.value.set_files(wrong)):
            expect(page.locator("#rp-script-notice")).to_have_text("Reading A film.mov…")
            drop(tab(page), file)  # while the first one is still being read
            expect(text(page, 1)).to_have_value("Hello there. How are you?")
        expect(page.locator("#rp-script-notice")).to_contain_text("choose one whose name ends in .txt, .md")
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
        card(page, 1).get_by_role("button", name="Split at the cursor").dblclick()
        expect(text(page, 2)).to_have_value("How are you?")
        card(page, 1).get_by_role("button", name="Add a card below").dblclick()
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
        uploads: list[Route] = []
        page.route("**/upload", lambda route: uploads.append(route))
        with page.expect_response(lambda answer: "/run/" in answer.url and wrong.name in str(answer.request.post_data)):
            tab(page).locator(".rp-script-overview > [type=file]").set_input_files(wrong)
            text(page, 2).fill(" ")
            text(page, 2).blur()
            refusal = tab(page).get_by_role("alert").filter(has_text="A card needs something to say")
            expect(refusal).to_be_visible()
            uploads[0].continue_()
        expect(refusal).to_be_visible()
        page.unroute("**/upload")
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
        for width, height in ((640, 450), (700, 640), (390, 740)):
            page.set_viewport_size({"width": width, "height": height})
            text(page, 3).scroll_into_view_if_needed()
            button(page, "Choose a picture").click(trial=True)
        page.set_viewport_size({"width": 390, "height": 844})
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
        expect(text(page, 1)).to_be_focused()  # the button is gone
        card(page, 1).get_by_role("button", name="Speak card 1 again").click()
        until(lambda: actor.said[-1] == "hullo there.")
        expect_state(page, 1, "spoken")

        # Without its SSML the text is as it was, and the cursor stays where it was.
        text(page, 1).press("End")
        text(page, 1).press("ArrowLeft")
        page.keyboard.type("<emphasis/>")
        expect(text(page, 1)).to_have_value("Hello there.")
        expect(text(page, 1)).to_be_focused()
        assert text(page, 1).evaluate("field => field.selectionEnd") == len("Hello there")
        expect(card(page, 1).get_by_role("status")).to_have_text("")

        # Another page has changed a card while its text was edited here.
        fourth = storage.scripts.cards(storage.scripts.list()[0].id)[3].id
        for answer, kept in (("Use that text", "From another page."), ("Keep mine", "Once more.")):
            text(page, 4).fill(f"{text(page, 4).input_value()} And")
            page.wait_for_function(SAVED, arg=text(page, 4).input_value(), polling=100)
            expect(card(page, 4).get_by_role("status")).to_have_text("")
            text(page, 4).fill("")  # is not saved; a poll does not show the other text in a field that is being edited
            storage.scripts.edit(fourth, f"{kept} Not this." if answer == "Keep mine" else kept)
            text(page, 4).fill("Once more.")
            card(page, 4).get_by_role("button", name=answer).click()
            expect(text(page, 4)).to_be_focused()
            expect(text(page, 4)).to_have_value(kept)
            until(lambda kept=kept: storage.scripts.card(fourth).text == kept)  # type: ignore[misc]
            expect(card(page, 4).get_by_role("status")).to_have_text("")

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

        # What was left out of a script is told while it is open, and not above the list.
        make(page, "Hello.\n\n```\ncode\n```")
        left_out = tab(page).get_by_text("Not read out (1)").locator("visible=true")
        expect(left_out).to_have_count(1)
        tab(page).get_by_role("button", name="All scripts").click()
        expect(tab(page).get_by_label("Text of the new script")).to_be_visible()
        expect(left_out).to_have_count(0)
