"""The studio in a browser: picking voices, pronunciations, several takes at once, themes and languages."""

import re
from functools import partial

from playwright.sync_api import Browser, FilePayload, Page, Request, Response, expect

from storage import Storage, VoiceLibrary
from storage.pronunciations import Pronunciation
from storage.voices.sample_voices import install_samples
from tests.support.fake_engine import FakeEngine, Script
from tests.support.waiting import until
from tests.web.tabs.speak.test_tab import Serve
from tests.web.visiting import SIZE, finish_deletions, hold_response, picker, refuse_event, violations, visit, wait_for

DOCK_MEASURED = """() => document.documentElement.style.getPropertyValue("--rp-dock") ===
    `${document.querySelector("#rp-dock").offsetHeight}px`"""
# Notes the number of favourites at each list that is shown, and counts the tasks after which the focus is nowhere.
NOTE_MARKS = """() => {
    const { port1, port2 } = new MessageChannel();
    let begun = false;
    Object.assign(window, { lost: 0, marks: [] });
    const starred = () => document.querySelectorAll(".rp-rail-star[aria-pressed='true']").length;
    document.addEventListener("reprise:coloured", () => window.marks.push(starred()));
    port1.onmessage = () => {
        begun ||= document.activeElement.matches(".rp-rail-star");
        if (begun && document.activeElement === document.body) window.lost += 1;
        if (!document.activeElement.matches("input")) setTimeout(() => port2.postMessage(null));
    };
    port2.postMessage(null);
}"""


def is_mark(message: Request | Response) -> bool:
    """Return whether this is the event that marks a favourite, or its answer."""
    request = message if isinstance(message, Request) else message.request
    return '"marked"' in (request.post_data or "")


def is_above_player(page: Page, on: str) -> bool:
    element, player = (
        page.locator(each).evaluate("node => node.getBoundingClientRect().toJSON()") for each in (on, "#rp-dock")
    )
    return bool(element["bottom"] <= player["top"])


def check_first_view(page: Page) -> None:
    """Check that the player covers neither Speak nor the button below the voices beside the first steps, and that Speak
    is visible in small windows.
    """
    page.set_viewport_size({"width": 1280, "height": 600})
    assert is_above_player(page, "#rp-to-new")
    page.set_viewport_size(SIZE)
    assert all(is_above_player(page, on) for on in ("#rp-speak", "#rp-to-new"))
    for width, height in ((1100, 720), (900, 700), (360, 640)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(DOCK_MEASURED)
        assert is_above_player(page, "#rp-speak"), (width, height)
    page.set_viewport_size({"width": 1280, "height": 800})


def test_studio_works_with_the_keyboard(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage
) -> None:
    install_samples(library)
    adam, ben = (library.find(name) for name in ("Adam", "Ben"))
    engine = FakeEngine(Script(phones=True))
    with visit(chromium, serve(engine, storage), viewport={"width": 1280, "height": 800}) as page:
        focused = page.locator(":focus")
        expect(page.get_by_text("Or make your own")).to_be_visible()
        check_first_view(page)
        expect(page.get_by_label("Text to speak")).to_have_value(adam.demo)
        page.get_by_role("button", name="Got it").press("Enter")
        expect(page.get_by_text("Or make your own")).to_be_hidden()

        # Voices: a favourite comes first; another one is picked with the arrow keys.
        rail = page.locator(".rp-rail-list")
        expect(rail.locator("[data-picked]")).to_have_attribute("data-id", adam.id)
        star = page.get_by_role("button", name="Favourite: Ben")
        presses: list[Request] = []
        page.evaluate(NOTE_MARKS)
        with page.expect_response(is_mark):
            star.press("Enter")
        expect(rail.locator("li").first).to_have_attribute("data-id", ben.id)
        with page.expect_response(is_mark), hold_response(page, '"favourite"', partial(star.press, "Enter")):
            page.on("request", lambda request: presses.append(request) if is_mark(request) else None)
            star.press("Enter")
            storage.favourites.mark(adam.id)  # by another page
            page.evaluate("document.dispatchEvent(new CustomEvent('reprise:back', { detail: {} }))")
            page.wait_for_function("window.marks.length === 2", polling=50)  # before the late answer
            assert not presses, "a press is sent when the one before is answered"
        expect(star).to_have_attribute("aria-pressed", "true")
        page.wait_for_function("window.marks.length === 3", polling=50)  # the next press shows one fewer at once
        assert storage.favourites.ids() == {adam.id, ben.id}
        page.get_by_role("button", name="Favourite: Adam").press("Enter")
        until(lambda: storage.favourites.ids() == {ben.id})
        page.wait_for_function("window.marks.length > 3 && window.marks.at(-1) === 1", polling=50)
        first, *others, last = page.evaluate("window.marks")
        assert (first, set(others), last) == (1, {2}, 1), "of all answers but the late one"
        assert page.evaluate("window.lost") == 0, "the star keeps the focus"
        with refuse_event(page, '"marked"', partial(star.press, "Enter")):
            expect(star).to_have_attribute("aria-pressed", "false")
        expect(star).to_have_attribute("aria-pressed", "true")
        star.focus()
        page.get_by_role("searchbox", name="Find a voice").fill("scottish")
        expect(rail.locator("li")).to_have_count(1)
        page.get_by_role("searchbox", name="Find a voice").fill("")
        # The Tab key stops at one voice of the list.
        for name in ("Hear Ben", "Ben", "Favourite: Ben", "New voice"):
            page.keyboard.press("Tab")
            expect(focused).to_have_accessible_name(re.compile(f"^{name}"))
        page.get_by_role("searchbox", name="Find a voice").press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(focused).to_have_accessible_name(re.compile("^Adam"))
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(picker(page)).to_have_value("Ben (sample)")
        expect(page.locator(".rp-card-name")).to_have_text("Ben")
        assert storage.favourites.ids() == {ben.id}

        # Screen readers are told whether the settings are open, and the volume in percent.
        advanced = page.get_by_role("button", name="Advanced", exact=True)
        for expanded in ("false", "true"):
            expect(advanced).to_have_attribute("aria-expanded", expanded)
            advanced.press("Enter")
        expect(page.get_by_label("Volume")).to_have_attribute("aria-valuetext", "100%")

        # Change the pronunciation of a selected word.
        text = page.get_by_label("Text to speak")
        text.fill("Learn SQL today, not GIF.")
        text.evaluate("field => { field.focus(); field.setSelectionRange(6, 9); }")
        say = page.get_by_role("button", name="Say “SQL” like…")
        say.hover()
        page.mouse.down()
        expect(text).to_be_focused()
        page.mouse.move(0, 0)
        page.mouse.up()
        say.press("Enter")
        expect(focused).to_have_attribute("name", "spoken")
        page.keyboard.type("sequel")
        page.keyboard.press("Enter")
        expect(page.locator(".rp-dictionary tbody tr")).to_have_count(1)
        languages = page.get_by_role("dialog").get_by_label("Language").locator("option").all_inner_texts()
        assert languages == ["All languages", *sorted(languages[1:])]
        page.get_by_label("Word", exact=True).fill("GIF")
        page.get_by_label("Say it like").fill("/JH IH1 FF/")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("“FF” is not an ARPAbet phone.")
        page.get_by_label("Match case").press("Space")
        expect(page.get_by_label("Match case")).to_have_css("appearance", "auto")  # Gradio's mark is white on white
        page.get_by_label("Say it like").fill("/jh ih1 f/")
        page.keyboard.press("Enter")
        gif = page.locator(".rp-dictionary tbody tr", has_text="/JH IH1 F/")
        expect(gif).to_have_count(1)
        expect(page.get_by_label("Word", exact=True)).to_have_value("")
        expect(page.get_by_label("Word", exact=True)).to_be_focused()  # for the next word
        page.get_by_label("Word", exact=True).fill("Not yet saved")
        page.get_by_role("button", name="Delete “GIF”").press("Enter")
        expect(gif).to_have_count(0)
        page.get_by_role("dialog").get_by_role("button", name="Undo").press("Enter")
        expect(gif).to_have_count(1)
        expect(page.get_by_label("Word", exact=True)).to_have_value("Not yet saved")
        expect(page.get_by_label("Word", exact=True)).to_be_focused()
        # A language that is not among the usual ones stays that of the entry.
        words_file = FilePayload(name="words.csv", mimeType="text/csv", buffer=b"Zmorge,breakfast,,gsw\n")
        page.locator(".rp-dictionary [type=file]").set_input_files(words_file)
        page.get_by_role("button", name="Zmorge", exact=True).press("Enter")
        expect(page.get_by_role("dialog").get_by_label("Language")).to_have_value("gsw")
        message = page.get_by_role("dialog").get_by_role("status")
        with hold_response(page, "“GIF” is deleted.", partial(gif.get_by_role("button", name="Delete").press, "Enter")):
            page.get_by_role("button", name="Delete “Zmorge”").press("Enter")
            expect(message).to_contain_text("“Zmorge” is deleted.")
        expect(message).to_contain_text("“GIF” is deleted.")
        expect(page.locator(".rp-dictionary tbody tr")).to_have_count(1)
        page.get_by_role("dialog").get_by_role("button", name="Undo").press("Enter")
        expect(page.locator(".rp-dictionary tbody tr")).to_have_count(2)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Pronunciation")).to_be_hidden()
        words = [Pronunciation("GIF", "/JH IH1 F/", match_case=True), Pronunciation("SQL", "sequel")]
        assert storage.pronunciations.list() == words

        # Three takes; one is kept.
        page.locator(".rp-at-once").select_option("3")
        page.locator("#rp-speak").press("Enter")
        group = page.locator(".rp-group-take")
        expect(group).to_have_count(3)
        wait_for(page, "player.finished")
        assert {asked for asked, _, _ in engine.asked} == {"Learn sequel today, not {{jh_ih_f}}."}
        assert {record.text for record in storage.history.page().records} == {"Learn SQL today, not GIF."}
        page.get_by_role("button", name="Play take C").press("Enter")
        expect(group.last).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="Keep C, delete the others").press("Enter")
        expect(page.get_by_role("button", name="Undo")).to_have_count(2)
        expect(page.locator(".rp-take:not([data-gone]) button").first).to_be_focused()
        finish_deletions(page)
        expect(page.locator(".rp-take")).to_have_count(1)
        expect(page.locator(".rp-group")).to_be_hidden()
        assert len(storage.history.page().records) == 1
        assert page.evaluate("localStorage.getItem('reprise.at_once')") == "3"

        # A take that another page deletes passes its focus on.
        page.locator("#rp-speak").press("Enter")
        takes = page.locator(".rp-take")
        expect(takes).to_have_count(4)
        wait_for(page, "player.finished")
        takes.first.get_by_role("button", name="Copy link").focus()
        first, *others = page.evaluate("JSON.parse(sessionStorage.getItem('reprise.takes')).map(({ id }) => id)")
        for deleted, focus in (
            ([first], takes.first.locator("button").first),
            (others, page.locator(".rp-takes-none")),
        ):
            for take in deleted:
                storage.history.delete(take)
            page.evaluate("window.repriseTakes.refresh()")
            expect(focus).to_be_focused()

        # Theme and language survive a reload; the first steps stay hidden.
        page.get_by_role("button", name="Dark").press("Enter")
        expect(page.locator("body")).to_have_class("dark")
        assert violations(page, rules=("color-contrast",)) == []
        change = partial(page.get_by_label("Language").first.select_option, "de")
        with hold_response(page, '"favourite"', change, every=True):
            expect(page.locator(".rp-card-name")).to_have_text("Ben")
            expect(page.get_by_text("Es gibt noch keine Stimmen.")).to_be_hidden()  # the list has not arrived
        expect(page.locator("#rp-speak")).to_have_text("Sprechen")
        expect(page.locator("body")).to_have_class("dark")
        expect(page.locator("html")).to_have_attribute("lang", "de")
        expect(page.get_by_text("Verstanden")).to_be_hidden()
