"""The Library tab in a browser."""

import io
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from PIL import Image
from playwright.sync_api import Browser, Dialog, FloatRect, Locator, Page, expect

from engine.voice import Voice
from storage import Storage, VoiceLibrary
from storage.repositories.voices.shared_voices import SampleVoice
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.web.visiting import (
    SIZE,
    downloaded,
    hold_response,
    open_tab,
    pick,
    picker,
    refuse_event,
    refusing,
    visit,
    wait_for,
)
from web.uploads.files import MAX_UPLOAD_MB

Serve = Callable[..., str]
LONG_NAME = "all voices of the house " * 4 + ".zip"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(Script(pace=0.1))


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True)


def shown_names(page: Page) -> list[str]:
    return page.locator(".rp-library h4").all_inner_texts()


def undo(page: Page, name: str) -> Locator:
    return page.locator(".rp-lib-aside li").filter(has_text=f"“{name}” is deleted.").get_by_role("button", name="Undo")


def rename(page: Page, before: str, after: str) -> None:
    page.get_by_role("button", name=before, exact=True).click()
    field = page.get_by_label("Rename")
    expect(field).to_be_focused()
    field.fill(after)
    field.press("Enter")


def answer_question(page: Page, asking: Callable[[], object], text: str, *, accept: bool) -> None:
    """Call `asking`, and answer the question with this text that the page then asks."""
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.message)
        (dialog.accept if accept else dialog.dismiss)()

    page.once("dialog", answer)
    asking()
    assert asked == [text]


def test_voices_are_edited_searched_played_used_and_in_sync_on_two_pages(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage, tmp_path: Path
) -> None:
    library.add(replace(voice("Anna", 2.0), language="de"))
    library.add(voice("Ben", 4.0))
    with visit(chromium, serve(engine, storage)) as page:
        expect(picker(page)).to_have_value("Anna")
        pick(page, "Ben")
        open_tab(page, "Library")
        expect(card(page, "Anna")).to_contain_text("German · 2.0 s")

        card(page, "Ben").get_by_role("button", name="Edit Ben").click()
        form = page.get_by_role("form", name="Edit Ben")
        choose_pictures(page, form, tmp_path)
        in_rail = page.locator(".rp-rail-row", has_text="Ben").locator(".rp-portrait")
        expect(in_rail).to_have_css("background-image", re.compile("^url"))
        form.get_by_label("Name").fill("anna")
        form.get_by_label("Description").fill("Low, from the kitchen. <b>{{x}}</b>")
        form.get_by_label("Tags").fill("warm, Story,story")
        form.get_by_label("Language").select_option("fr")
        with hold_response(page, "already a voice", form.get_by_role("button", name="Save").click):
            expect(page.locator("[data-id][aria-busy=true]")).to_have_count(1)
        expect(page.locator("[data-id][aria-busy=true]")).to_have_count(0)
        expect(form.get_by_role("alert")).to_have_text("There is already a voice called “anna”.")
        expect(form.get_by_label("Tags")).to_have_value("warm, Story,story")
        form.get_by_label("Name").fill("Zoe")
        with refuse_event(page, "Zoe", form.get_by_role("button", name="Save").click):
            expect(form.get_by_role("button", name="Save")).to_be_disabled()
        expect(page.locator("#rp-connection")).to_contain_text("The server refused a request of this page.")
        expect(form.get_by_role("button", name="Save")).to_be_enabled()
        with (  # the list that is read next arrives before the answer
            hold_response(page, "Renamed to", lambda: form.get_by_label("Name").press("Enter")),
            page.expect_response(lambda answer: "/run/" in answer.url and '"Zoe"' in answer.text()),
        ):
            page.evaluate("document.dispatchEvent(new CustomEvent('reprise:tab', { detail: 'library' }))")
        expect(page.locator(".rp-lib-message")).to_have_text("Renamed to “Zoe”.")
        zoe = card(page, "Zoe")
        expect(zoe.get_by_role("button", name="Edit")).to_be_focused()
        expect(zoe).to_contain_text("French")
        expect(zoe.locator(".rp-portrait")).to_have_css("background-image", re.compile("^url"))
        expect(zoe).to_contain_text("<b>{{x}}</b>")
        expect(zoe.get_by_role("list", name="Tags").get_by_role("listitem")).to_have_text(["warm", "Story"])
        expect(picker(page)).to_have_value("Zoe")

        search = page.get_by_role("searchbox", name="Search")
        search.fill("KITCHEN zoe")
        assert shown_names(page) == ["Zoe"]
        search.fill("nobody")
        expect(page.get_by_text("No voice matches “nobody”.")).to_be_visible()
        search.fill("")
        assert shown_names(page) == ["Anna", "Zoe"]
        page.get_by_label("Sort by").select_option("longest")
        assert shown_names(page) == ["Zoe", "Anna"]

        hear = zoe.get_by_role("button", name="Hear Zoe")
        hear.click()
        wait_for(page, "player.played > 0 || player.position > 0")
        expect(hear).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".rp-rail-row[data-sounding] .rp-rail-name")).to_have_text("Zoe")
        hear.click()
        expect(hear).to_have_attribute("aria-pressed", "false")

        # A page that is opened later offers to undo a deletion. Pages of one owner are in sync and keep typed text,
        # even if its voice is deleted.
        assert library.find("zoe").tags == ("warm", "Story")
        library.trash(library.add(voice("Ida")).id)
        other = page.context.new_page()
        other.goto(page.url)
        expect(picker(other)).to_have_value("Zoe")
        open_tab(other, "Library")
        undo(other, "Ida").click()
        expect(card(other, "Ida")).to_be_visible()
        card(other, "Anna").get_by_role("button", name="Edit").click()
        other.get_by_label("Description").fill("Half written")
        page.bring_to_front()
        rename(page, "Zoe", "Mia")
        expect(card(page, "Mia").get_by_role("button", name="Mia", exact=True)).to_be_focused()
        expect(card(page, "Ida")).to_be_visible()
        rename(page, "Anna", "Nora")
        card(page, "Nora").get_by_role("button", name="Delete").press("Enter")
        expect(undo(page, "Nora")).to_be_focused()
        other.bring_to_front()
        expect(card(other, "Mia")).to_be_visible()
        notice = other.get_by_role("form").get_by_role("alert")
        expect(notice).to_contain_text("This voice was deleted elsewhere.")
        expect(other.get_by_label("Description")).to_have_value("Half written")
        expect(picker(other)).to_have_value("Mia")
        page.bring_to_front()
        page.keyboard.press("Enter")
        expect(card(page, "Nora").get_by_role("button", name="Edit")).to_be_focused()
        other.bring_to_front()
        expect(notice).to_be_hidden()
        expect(other.get_by_role("textbox", name="Name")).to_have_value("Nora")
        edit = card(other, "Mia").get_by_role("button", name="Edit")
        answer_question(other, edit.click, "The changes to “Nora” are not saved. Discard them?", accept=False)
        expect(other.get_by_label("Description")).to_have_value("Half written")
        question = (
            "The page is reloaded to change the language. What is not saved will be lost: clips of a new voice, "
            "changes to a voice. Change the language anyway?"
        )
        language = other.locator("#rp-switches").get_by_label("Language")
        answer_question(other, lambda: language.select_option("de"), question, accept=False)
        expect(language).to_have_value("en")
        answer_question(other, edit.click, "The changes to “Nora” are not saved. Discard them?", accept=True)
        expect(other.get_by_role("form", name="Edit Mia")).to_be_visible()
        other.keyboard.press("Escape")
        expect(other.get_by_role("form")).to_have_count(0)
        expect(edit).to_be_focused()
        library.delete(library.find("Mia").id)  # by another browser, or the command line
        other.wait_for_function(
            """() => {
                dispatchEvent(new Event("focus"));
                return ![...document.querySelectorAll(".rp-library h4")].some((name) => name.textContent === "Mia");
            }""",
            polling=2_500,  # ms; the page treats its list as fresh until two seconds after the last focus
        )
        other.close()
        page.bring_to_front()

        def use(name: str) -> None:
            card(page, name).get_by_role("button", name="Use this voice").click()

        chosen = library.find("Nora").id  # right after another one
        with (
            hold_response(page, '"speak"', lambda: use("Ida"), every=True),
            page.expect_request(lambda sent: chosen in (sent.post_data or "")),
        ):
            use("Nora")
        expect(page.get_by_role("tab", name="Speak", exact=True)).to_have_attribute("aria-selected", "true")
        expect(picker(page)).to_have_value("Nora")
        expect(page.get_by_label("Text to speak")).to_be_focused()

        # A tab that is opened, and a field that is used, before the answer keep the user's attention.
        open_tab(page, "Library")
        with hold_response(page, '"speak"', lambda: use("Ida")):
            open_tab(page, "Status")
        expect(picker(page)).to_have_value("Ida")
        expect(page.get_by_role("tab", name="Status")).to_have_attribute("aria-selected", "true")
        open_tab(page, "Library")
        find = page.get_by_label("Find a voice")
        with hold_response(page, '"speak"', lambda: use("Nora")):
            open_tab(page, "Speak")
            find.focus()
        expect(picker(page)).to_have_value("Nora")
        expect(find).to_be_focused()


def choose_pictures(page: Page, form: Locator, folder: Path) -> None:
    """Choose files that are refused, and one picture twice, which is removed between."""
    picture, text, large = (folder / f"{name}.png" for name in ("ben", "text", "large"))
    Image.new("RGB", (30, 20), "red").save(picture, "PNG")
    text.write_text("no picture", "utf-8")
    large.touch()
    os.truncate(large, (MAX_UPLOAD_MB << 20) + 1)
    message, field = page.locator(".rp-lib-message"), form.locator(".rp-lib-picture input")
    field.set_input_files(large)
    expect(message).to_contain_text("“large.png” is larger than 50 MB.")
    field.set_input_files(text)
    expect(form.get_by_role("alert")).to_contain_text("This picture cannot be read")
    expect(message).to_be_hidden()  # nothing is being uploaded any more
    with refusing(page, "ben.png"):
        field.set_input_files(picture)
    expect(message).to_be_hidden()
    field.set_input_files(picture)
    expect(message).to_have_text("Ben has a new picture.")
    expect(form.get_by_role("alert")).to_be_hidden()
    form.get_by_role("button", name="Remove the picture").press("Enter")
    expect(message).to_have_text("Ben no longer has a picture.")
    expect(form.get_by_role("button", name="Choose a picture")).to_be_focused()
    expect(field).to_have_value("")  # the same file can be chosen again
    field.set_input_files(picture)
    expect(message).to_have_text("Ben has a new picture.")
    expect(form.locator(".rp-portrait")).to_have_css("background-image", re.compile("data:image/webp"))


def test_voices_are_deleted_restored_duplicated_exported_imported_and_listed_in_steps(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage, tmp_path: Path
) -> None:
    library.share([SampleVoice(voice(name), f"I am {name}.") for name in ("Adam", "Clara")])
    for name in ("Anna", "Ben", "Zoe"):
        library.add(voice(name))
    library.add(replace(voice(LONG), description="x" * 300, tags=("y" * 40,)))
    with visit(chromium, serve(engine, storage)) as page:
        pick(page, "Zoe")
        open_tab(page, "Library")
        delete_and_restore(page, library)
        assert library.trashed() == []
        assert [record.name for record in library.list()] == ["Adam", "Clara"]
        duplicate_export_and_import(page, tmp_path)
        made = [library.add(voice(f"Voice {number:02}")) for number in range(66)]
        storage.favourites.mark(made[-1].id)
        import_under_another_name(page)
        show_long_lists(page)
    names = [record.name for record in library.list() if not record.shared]
    assert names[:5] == ["Adam", "Adam 2", "Adamo", "Clara", "Voice 00"]


LONG = "W" * 80


def delete_and_restore(page: Page, library: VoiceLibrary) -> None:
    """Delete the voices for good in the end. Also checks that long texts cause no sideways scrolling on a phone."""

    def delete(name: str) -> None:
        card(page, name).get_by_role("button", name="Delete").click()

    for name, now in (("Zoe", "Anna"), ("Anna", "Ben")):
        delete(name)
        expect(page.locator(".rp-lib-message")).to_have_text(f"The voice under “Speak” is now “{now}”.")
        expect(picker(page)).to_have_value(now)
    for name in ("Zoe", "Anna"):
        undo(page, name).click()
        expect(card(page, name)).to_be_visible()
        expect(picker(page)).to_have_value("Zoe")

    page.set_viewport_size({"width": 390, "height": 844})
    card(page, LONG).get_by_role("button", name="Edit").click()
    boxes = [page.get_by_role("form").bounding_box(), page.locator(".rp-lib-bar").bounding_box()]
    assert all(fits(box, 390) for box in boxes), boxes
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Escape")
    page.set_viewport_size(SIZE)

    # Quick deletions all apply, whenever they are answered.
    delete(LONG)
    with hold_response(page, '"answer"', lambda: delete("Zoe"), every=True):
        card(page, "Anna").get_by_role("button", name="Delete").focus()
        page.keyboard.press("Enter")
        while "Anna" not in {record.name for record in library.trashed()}:
            page.wait_for_timeout(50)
    expect(undo(page, "Anna")).to_be_focused()
    for name in (LONG, "Zoe", "Anna"):
        expect(card(page, name)).to_have_count(0)
    delete("Ben")
    expect(page.get_by_text("You have no voices of your own yet.")).to_be_visible()
    expect(page.get_by_text("Export all")).to_be_hidden()
    page.set_viewport_size({"width": 280, "height": 653})  # the other tabs are in the menu
    page.locator(".rp-lib-none").get_by_role("button", name="New voice").click()
    expect(page.get_by_role("tab", name="New voice")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.get_by_role("tab", name="Library")).to_have_attribute("aria-selected", "true")
    page.set_viewport_size(SIZE)
    page.get_by_role("button", name="Delete for good now").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(page.get_by_text("Deleted for good.")).to_be_visible()
    expect(page.get_by_role("heading", name="Your voices")).to_be_focused()


def duplicate_export_and_import(page: Page, folder: Path) -> None:
    """Make copies of the sample voices in each way."""
    adam = card(page, "Adam")
    expect(adam.get_by_role("button")).to_have_count(4)
    for name in ("Hear Adam", "Use this voice", "Duplicate Adam", "Copy link: Adam"):
        expect(adam.get_by_role("button", name=name)).to_be_visible()
    adam.get_by_role("button", name="Duplicate").dblclick()
    expect(page.get_by_text("“Adam” is your own copy.")).to_be_visible()
    edit_during_other_changes(page, folder)

    name, data = downloaded(page, page.get_by_role("link", name="Export all"))
    with ZipFile(io.BytesIO(data)) as archive:
        files = archive.namelist()
    assert (name, files) == ("Reprise voices.zip", ["Adam.voice", "Adam 2.voice"])
    name, one = downloaded(page, card(page, "Clara").get_by_role("link", name="Export Clara"))
    assert (name, Voice.from_bytes(one).name) == ("Clara.voice", "Clara")

    card(page, "Adam 2").get_by_role("button", name="Delete Adam 2").click()
    expect(undo(page, "Adam 2")).to_be_visible()
    data = with_skipped_files(data, 400)  # more files than one import accepts, so the page cuts it
    for file, content in {LONG_NAME: data, "Clara.voice": one, "broken.voice": one[:-1]}.items():
        (folder / file).write_bytes(content)
    chosen = [folder / file for file in (LONG_NAME, "Clara.voice", "broken.voice")]
    field, message = page.locator("#rp-library input[type=file]"), page.locator(".rp-lib-message")
    page.route("**/upload", lambda route: None)  # it is never answered
    field.set_input_files(chosen)
    expect(page.get_by_role("progressbar", name="Uploading “")).to_be_visible()
    cancel = page.locator("#rp-library .rp-sending").get_by_role("button", name="Cancel")
    page.set_viewport_size({"width": 390, "height": 844})
    assert cancel.evaluate("button => button.getBoundingClientRect().right < innerWidth"), "the name is cut off"
    page.set_viewport_size(SIZE)
    cancel.press("Enter")
    expect(message).to_have_text("The upload was cancelled.")
    expect(page.get_by_role("progressbar", name="Uploading “")).to_be_hidden()
    expect(page.locator(".rp-lib-import")).to_be_focused()
    page.unroute("**/upload")
    with refusing(page, "broken.voice"):
        field.set_input_files(folder / "broken.voice")
    with hold_response(page, '"imported":0', lambda: field.set_input_files(chosen)):  # to the first of three parts
        page.evaluate("document.dispatchEvent(new CustomEvent('reprise:refused'))")  # of another action
        field.set_input_files(folder / "broken.voice")
        expect(message).to_contain_text("“broken.voice” was not imported.")
    expect(message).to_contain_text("Imported “Adam 2”, “Clara”.")
    expect(message.get_by_role("listitem")).to_have_text(
        [
            "“broken.voice” was not imported. This voice file is damaged.",
            "“Adam.voice” was not imported. There is already a voice called “Adam”.",
        ]
    )
    expect(page.locator(".rp-lib-used")).to_contain_text("kB")


def with_skipped_files(archive: bytes, count: int) -> bytes:
    """Return an archive of voices after files of a Mac's system."""
    made = io.BytesIO()
    with ZipFile(io.BytesIO(archive)) as old, ZipFile(made, "w") as new:
        for number in range(count):
            new.writestr(f"__MACOSX/._{number}.voice", b"")
        for entry in old.infolist():
            new.writestr(entry, old.read(entry))
    return made.getvalue()


def edit_during_other_changes(page: Page, folder: Path) -> None:
    """Answers to a duplication and to a new picture, which arrive while a form is open, do not concern the form."""
    adam, form = card(page, "Adam").first, page.get_by_role("form", name="Edit Adam")
    with hold_response(page, "Adam 2", adam.get_by_role("button", name="Duplicate").click):
        adam.get_by_role("button", name="Edit").click()
        form.get_by_label("Description").fill("Half written")
    expect(card(page, "Adam 2")).to_be_visible()
    expect(form.get_by_label("Description")).to_have_value("Half written")
    Image.new("RGB", (30, 20), "red").save(folder / "picture.png")
    save, message = form.get_by_role("button", name="Save"), page.locator(".rp-lib-message")
    choose = form.locator(".rp-lib-picture input")
    with hold_response(page, "has a new picture", lambda: choose.set_input_files(folder / "picture.png")):
        save.click()
        expect(form).to_have_count(0)
    expect(adam).to_contain_text("Half written")
    adam.get_by_role("button", name="Edit").click()
    form.get_by_label("Description").fill("Written")
    with hold_response(page, "is saved", save.click):
        form.get_by_role("button", name="Remove the picture").click()
        expect(message).to_have_text("Adam no longer has a picture.")
        expect(save).to_be_disabled()
        page.evaluate("document.dispatchEvent(new CustomEvent('reprise:back', { detail: { anew: false } }))")
        expect(save).to_be_enabled()  # its answer may be lost
    expect(form).to_have_count(0)


def import_under_another_name(page: Page) -> None:
    message = page.locator(".rp-lib-message")
    name_field = message.get_by_role("textbox", name="Name to import it under")
    expect(name_field).to_have_value("Adam 3")
    name_field.fill("Adamo")
    message.get_by_role("button", name="Import under this name").click()
    expect(message).to_have_text("Imported “Adamo”.")


def fits(box: FloatRect | None, width: int) -> bool:
    return box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width


def show_long_lists(page: Page) -> None:
    """Lists show their first voices, and more at their end. There are 70 own voices and two samples."""
    cards = page.locator("[data-list=own] > li")
    expect(cards).to_have_count(60)
    cards.last.scroll_into_view_if_needed()
    expect(cards).to_have_count(70)
    search = page.locator(".rp-library input[type=search]")
    search.fill("Voice 4")
    expect(cards).to_have_count(16)
    rename(page, "Voice 40", "Zoe Voice 4")
    expect(cards.last).to_contain_text("Zoe")
    search.fill("")
    expect(cards).to_have_count(60)

    open_tab(page, "Speak")
    rows = page.locator(".rp-rail-row")
    expect(rows).to_have_count(61)  # with the picked voice, a sample
    expect(rows.first).to_contain_text("Voice 65")
    rows.last.scroll_into_view_if_needed()
    expect(rows).to_have_count(72)
    page.get_by_label("Find a voice").fill("Voice 4")
    expect(rows).to_have_count(16)
