"""Late responses, and a server that stops and restarts."""

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from gradio.context import Context
from playwright.sync_api import Browser, Page, Route, expect

from storage import Storage, VoiceLibrary
from storage.voices.sample_voices import install_samples
from tests.paths import CLIP
from tests.storage.speaking import spoken
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.support.waiting import until
from tests.web.page.forwarder import Forwarder
from tests.web.visiting import (
    TIMEOUT,
    hold_response,
    open_settings,
    open_tab,
    pick,
    picker,
    player,
    speak,
    upload,
    visit,
    wait_for,
)
from web.ui import events

Serve = Callable[..., str]
pytestmark = pytest.mark.slow
GONE = "The server does not answer."


# ---- late responses

SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_late_responses_replace_nothing_newer(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    install_samples(library)
    adam, ben, clara = library.list()[:3]
    for number in range(20):
        storage.history.add(spoken(f"Number {number}."))
    with visit(chromium, serve(engine, storage), clock=True) as page:

        def refresh() -> None:
            page.clock.fast_forward(2_500)  # until then the page treats its lists as fresh
            page.evaluate("dispatchEvent(new Event('focus'))")

        expect(picker(page)).to_have_value("Adam (sample)")
        text, about = page.get_by_label("Text to speak"), page.locator(".rp-about")
        expect(text).to_have_value(adam.demo)
        page.locator("#rp-speak").click()
        wait_for(page, "player.finished")
        assert engine.asked[0][0] == adam.demo
        pick(page, "Ben (sample)")
        expect(text).to_have_value(ben.demo)

        # Typed before the demo text of the picked voice arrives; it also stays when another voice is picked.
        with hold_response(page, adam.demo, lambda: pick(page, "Adam (sample)")):
            text.focus()
            page.keyboard.press("Control+a")
        expect(about).to_have_text(adam.description)
        page.keyboard.insert_text("My own words.")
        expect(text).to_have_value("My own words.")

        # Two voices picked in a row.
        with hold_response(page, ben.description, lambda: pick(page, "Ben (sample)")):
            pick(page, "Clara (sample)")
            expect(about).to_have_text(clara.description)
        page.evaluate(SETTLED)
        expect(about).to_have_text(clara.description)
        expect(text).to_have_value("My own words.")
        page.get_by_role("button", name="Hear this voice").click()
        wait_for(page, f"player.on === 'voice:{clara.id}'")

        # Picked during a refresh of the list.
        library.add(voice("Zoe"))
        with hold_response(page, "rp-heading", refresh):
            pick(page, "Adam (sample)")
        picker(page).click()
        expect(page.get_by_role("option", name="Zoe")).to_be_visible()
        page.keyboard.press("Escape")
        expect(picker(page)).to_have_value("Adam (sample)")
        speak(page, "In whose voice?")
        until(lambda: storage.history.page().total == 22)
        asked, speaker, _ = engine.asked[1]
        assert speaker is not None
        assert (asked, speaker.name) == ("In whose voice?", "Adam")

        # Settings that are entered before the answer to Reset.
        open_settings(page)
        temperature, seed = page.locator("#rp-temperature input[type=number]"), page.locator("#rp-seed input")
        usual = temperature.input_value()
        temperature.fill("1.2")
        with hold_response(page, '"data":["",', page.locator("#rp-reset").click):
            seed.fill("7")
        expect(temperature).to_have_value(usual)
        expect(seed).to_have_value("7")

        # The page's contents are requested again although an earlier request hangs.
        back = "document.dispatchEvent(new CustomEvent('reprise:back', { detail: { anew: false } }))"
        with (
            hold_response(page, '"owner"', lambda: page.evaluate(back)),
            page.expect_response(lambda answer: "/run/" in answer.url and '"owner"' in answer.text()),
        ):
            page.evaluate(back)

        # The History shows the latest search.
        open_tab(page, "History")
        entries, starred = page.locator(".rp-entry"), page.get_by_label("Starred only")
        expect(entries).to_have_count(20)
        with hold_response(page, '"entries":', refresh):
            starred.check()
            expect(entries).to_have_count(0)
        page.evaluate(SETTLED)
        expect(entries).to_have_count(0)
        starred.uncheck()
        expect(entries).to_have_count(20)
        page.get_by_role("button", name="Show more").click()
        expect(entries).to_have_count(22)


# ---- server restart


@pytest.fixture
def forwarder() -> Iterator[Forwarder]:
    made = Forwarder()
    yield made
    made.close()


def lose_event(
    page: Page, containing: str, times: int = 1, *, path: str = "run/predict", answered: bool = False
) -> None:
    """Reset the connections of the next events whose requests contain `containing`. answered: after the answer."""
    lost: list[Route] = []

    def lose(route: Route) -> None:
        if len(lost) == times or containing not in (route.request.post_data or ""):
            route.fallback()
        else:
            lost.append(route)
            if answered:
                route.fetch()
            route.abort("connectionreset")

    page.route(f"**/gradio_api/{path}*", lose)


def test_page_survives_a_server_restart_and_reloads_for_another_version(
    chromium: Browser,
    serve: Serve,
    library: VoiceLibrary,
    storage: Storage,
    forwarder: Forwarder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engines: list[FakeEngine] = []

    def start(first: int = 0) -> None:
        Context.id = first  # Gradio numbers the components from here: in a new process from 0
        engines.append(FakeEngine(Script(pace=0.5)))
        forwarder.open(urlsplit(serve(engines[-1], storage)).port or 0)

    library.add(voice("Anna"))
    library.add(voice("Ben"))
    start()
    visitor = chromium.new_context(reduced_motion="reduce")
    visitor.set_default_timeout(TIMEOUT)
    page = visitor.new_page()
    failed: list[str] = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(url := f"http://127.0.0.1:{forwarder.port}/")
    page.evaluate("window.same = true")
    expect(picker(page)).to_have_value("Anna")
    pick(page, "Ben")
    open_tab(page, "New voice")
    page.locator(".rp-file").set_input_files(CLIP)
    page.get_by_label("The words in this clip").fill("Half a transcript")
    expect(page.locator(".rp-verdict")).not_to_have_text("")
    open_tab(page, "Speak")
    speak(page, "A text that is spoken when the server is killed. " * 20)
    wait_for(page, "player.played > 0")

    forwarder.close()
    gone = page.locator("#rp-connection").get_by_text(GONE)
    expect(gone).to_be_visible()
    expect(page.locator(".rp-status")).to_have_text(re.compile("broke off. What had arrived is here"))
    page.get_by_label("Text to speak").fill("Typed while it was gone.")
    page.locator("#rp-speak").click()
    expect(page.locator(".rp-status")).to_have_text(re.compile("before anything was spoken"))
    expect(page.locator(".toast-body")).to_be_hidden()  # a message of Gradio
    page.locator("#rp-to-new").click()
    expect(page.get_by_role("tab", name="New voice")).to_have_attribute("aria-selected", "true")
    open_tab(page, "Library")
    expect(gone).to_be_visible()

    monkeypatch.setattr(events, "_START", events._START - 86_400)  # the clock was set back
    start()
    expect(page.get_by_text("The server is back.", exact=True)).to_be_visible()
    expect(gone).to_be_hidden()
    expect(page.locator(".toast-body")).to_have_count(0)
    open_tab(page, "Speak")
    broken = page.locator(".rp-take").filter(has_text="cut off: the connection broke")
    expect(broken.get_by_text("A text that is spoken when the server is killed.")).to_be_visible()
    expect(page.get_by_label("Text to speak")).to_have_value("Typed while it was gone.")
    expect(picker(page)).to_have_value("Ben")
    page.locator("#rp-speak").click()
    wait_for(page, "player.finished")
    assert player(page)["stopReason"] == "end"
    open_tab(page, "New voice")
    expect(page.get_by_label("The words in this clip")).to_have_value("Half a transcript")
    page.get_by_label("Name of the voice", exact=True).fill("Carla")
    page.locator("#rp-consent input").check()
    page.get_by_role("button", name="Save voice").click()
    expect(picker(page)).to_have_value("Carla")
    expect(page.locator(".rp-rail-list li").filter(has_text="Carla")).to_have_count(1)
    open_tab(page, "Library")
    expect(page.locator("#rp-library li[data-id]").filter(has_text="Carla")).to_have_count(1)
    assert page.evaluate("window.same"), "the page was reloaded"
    assert failed == []

    # Requests that are lost although the server is there.
    open_tab(page, "Speak")
    page.locator(".rp-at-once").select_option("2")
    lose_event(page, '-2"', path="queue/join", answered=True)
    speak(page, "A text that is stopped soon. " * 20)
    expect(page.locator(".rp-takes-say")).to_contain_text("broke off")
    wait_for(page, "player.played > 0")
    speeches = engines[-1].speeches
    until(lambda: any(each.result and each.result.stop_reason == "cancelled" for each in speeches))
    lose_event(page, "ticket")
    page.locator("#rp-stop").click()
    wait_for(page, "player.finished")
    assert player(page)["stopReason"] == "cancelled"
    page.locator(".rp-at-once").select_option("1")
    lose_event(page, "A lost text.", path="queue/join", answered=True)
    speak(page, "A lost text. " * 20)
    expect(page.locator(".rp-status")).to_contain_text("connection")
    until(lambda: len(speeches) == 4 and speeches[-1].result is not None)
    assert [each.result and each.result.stop_reason for each in speeches][-1] == "cancelled", "the page has given it up"
    open_tab(page, "History")
    lose_event(page, '"data":[false,', times=2)
    page.get_by_text("What is kept", exact=True).click()
    page.get_by_label("Keep a history of my takes").uncheck()
    expect(page.locator("#rp-kept-notice")).to_contain_text("are not kept")
    open_tab(page, "New voice")
    upload(page, CLIP)
    lose_event(page, "")
    page.get_by_role("button", name="Save voice").click()
    expect(page.locator("#rp-form-notice")).to_contain_text("save again")
    expect(page.locator("#rp-connection").get_by_text("If a change is missing, make it again.")).to_be_visible()

    before = httpx.get(f"{url}reprise/alive").json()
    page.route("**/reprise/alive", lambda route: route.fulfill(json=before))  # the page does not find out by itself
    forwarder.close()
    start(1_000)  # as in another version
    open_tab(page, "Speak")
    with page.expect_response("**/gradio_api/queue/join*") as refused:
        speak(page, "A text.")
    assert refused.value.status == 409
    expect(page.locator(".rp-status")).to_contain_text("Reload")
    useless = page.locator("#rp-connection").get_by_text("has to be reloaded")
    expect(useless).to_be_visible()
    assert page.evaluate("window.same"), "the clip is not saved"

    # Where a reload brings the same page, it is not reloaded again.
    page.add_init_script("performance.now = () => 0")
    page.route("**/gradio_api/run/predict", lambda route: route.fulfill(status=409, json={}))
    open_tab(page, "New voice")
    page.get_by_role("button", name="Remove").first.click()  # nothing is unsaved any more
    page.wait_for_function("!window.same", polling=100)
    page.evaluate("window.same = true")
    expect(useless).to_be_visible()
    assert page.evaluate("window.same")
    visitor.close()
