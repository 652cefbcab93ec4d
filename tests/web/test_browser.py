"""Speaking on the page, with Gradio and Chromium."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from storage import Storage, VoiceLibrary
from storage.voices.samples import install_samples
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.web.conftest import PLAIN_HTTP_HOST, read_wav
from tests.web.visiting import downloaded, hold_response, pick, picker, player, speak, visit, wait_for
from tests.web.visitor import Visitor
from web.identity.owners import OwnerResolver

Serve = Callable[..., str]
pytestmark = pytest.mark.slow


@pytest.fixture(params=["fake", "bundled"])
def speaker(request: pytest.FixtureRequest) -> Any:
    """Each engine that the page must work with."""
    return FakeEngine(Script(pace=0.6)) if request.param == "fake" else request.getfixturevalue("bundled_engine")


def download(page: Page) -> tuple[str, bytes]:
    return downloaded(page, page.locator("#rp-dock .rp-download"))


def test_pick_speak_hear_download_stop_reload(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, speaker: Any
) -> None:
    install_samples(library)
    with visit(chromium, serve(speaker, storage)) as page:
        expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
        expect(picker(page)).to_have_value("Adam (sample)")
        pick(page, "Ben (sample)")

        speak(page, "We walked along. The train was late.")
        wait_for(page, "player.finished")
        heard = player(page)
        assert heard["stopReason"] in ("end", "length"), heard["status"]
        assert heard["output"] == "worklet"
        assert heard["playedAtFinish"] > 0, "playback starts before the take is complete"
        assert heard["lost"] == 0
        assert heard["status"].startswith(("Spoken to the end", "Stopped at"))
        expect(page.locator(".rp-first")).to_contain_text("ms after the click")
        name, wav = download(page)
        samples, rate = read_wav(wav)
        assert name == "Ben – We walked along. The train was late.wav"
        assert rate == speaker.sample_rate
        assert len(samples) == heard["length"]
        assert np.abs(samples.astype(int)).max() > 300, "the take is silent"
        wait_for(page, "player.position >= player.length - 1")

        speak(page, "This sentence goes on and on, as the river does. " * 40)
        wait_for(page, "player.played > 0")
        page.locator("#rp-stop").click()
        wait_for(page, "player.finished")
        stopped = player(page)
        assert stopped["stopReason"] == "cancelled"
        assert "what was spoken is kept" in stopped["status"]
        assert len(read_wav(download(page)[1])[0]) == stopped["length"] > 0

        expect(page.locator(".rp-take")).to_have_count(2)
        expect(page.locator(".rp-take").first).to_contain_text("stopped early")
        kept = storage.history.page().records
        assert [record.stop_reason for record in kept] == ["cancelled", heard["stopReason"]]
        page.reload()
        expect(picker(page)).to_have_value("Ben (sample)")
        expect(page.locator(".rp-take")).to_have_count(2)
        page.get_by_role("button", name="Play: We walked").click()
        wait_for(page, "player.position > 0")
        assert player(page)["length"] == heard["length"], "the take is fetched by its link"


def test_sample_voice_speaks_its_demo_text(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage
) -> None:
    install_samples(library)
    adam, ben = library.list()[:2]
    engine = FakeEngine(Script(pace=0.1))
    with visit(chromium, serve(engine, storage)) as page:
        expect(picker(page)).to_have_value("Adam (sample)")
        text = page.get_by_label("Text to speak")
        expect(text).to_have_value(adam.demo)
        page.get_by_role("button", name="Speak", exact=True).click()
        wait_for(page, "player.finished")
        assert engine.asked[0][0] == adam.demo
        pick(page, "Ben (sample)")
        expect(text).to_have_value(ben.demo)

        text.fill("My own words.")
        pick(page, "Adam (sample)")
        expect(text).to_have_value("My own words.")


def test_late_demo_text_does_not_replace_typed_text(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    install_samples(library)
    adam, ben = library.list()[:2]
    with visit(chromium, serve(engine, storage)) as page:
        text = page.get_by_label("Text to speak")
        expect(text).to_have_value(adam.demo)
        with hold_response(page, ben.demo, lambda: pick(page, "Ben (sample)")):
            text.focus()
            page.keyboard.press("Control+a")
        expect(page.locator(".rp-about")).to_have_text(ben.description)
        page.keyboard.insert_text("My own words.")
        expect(text).to_have_value("My own words.")


def test_voice_picked_during_a_refresh_stays_picked(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    library.add(voice("Anna"))
    ben = library.add(voice("Ben"))
    with visit(chromium, serve(engine, storage), clock=True) as page:
        expect(picker(page)).to_have_value("Anna")
        page.clock.fast_forward(2_500)  # until then the page treats its list as fresh
        library.add(voice("Zoe"))
        with hold_response(page, "rp-heading", lambda: page.evaluate("dispatchEvent(new Event('focus'))")):
            pick(page, "Ben")
        picker(page).click()
        expect(page.get_by_role("option", name="Zoe")).to_be_visible()
        page.keyboard.press("Escape")
        expect(picker(page)).to_have_value("Ben")
        speak(page, "In whose voice?")
        wait_for(page, "player.finished")
        assert engine.asked[0][:2] == ("In whose voice?", library.load(ben.id))


def test_take_plays_over_plain_http(chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage) -> None:
    name = "Anna `${alert(1)}` <b>{{x}}</b>"
    library.add(voice(name))
    url = serve(FakeEngine(Script(pace=0.3)), storage).replace("127.0.0.1", PLAIN_HTTP_HOST)
    with visit(chromium, url) as page:
        expect(picker(page)).to_have_value(name)
        speak(page, "Browsers have no audio thread here. It sounds all the same.")
        wait_for(page, "player.finished && player.position >= player.length - 1")
        heard = player(page)
        assert (heard["output"], heard["lost"], heard["underruns"]) == ("buffers", 0, 0)
        expect(page.locator(".rp-take")).to_contain_text(name)
        page.get_by_role("button", name="Hear this voice").click()
        wait_for(page, "player.position > 0 && player.on.startsWith('voice:')")


def test_waiting_take_stops_and_closed_page_frees_the_engine(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage
) -> None:
    engine = FakeEngine(Script(pace=0.5, line=True))
    library.add(voice("Ben"))
    url = serve(engine, storage)
    with visit(chromium, url) as first, visit(chromium, url) as second:
        expect(picker(first)).to_have_value("Ben")
        expect(picker(second)).to_have_value("Ben")
        speak(first, "A very long text. " * 40)
        wait_for(first, "player.chunks > 0")
        speak(second, "Me too.")
        expect(second.locator(".rp-status")).to_have_text("Waiting: you are next.")
        second.locator("#rp-stop").click()
        expect(second.locator(".rp-status")).to_have_text("Stopped before anything was spoken.")
        assert engine.speeches[1].cancelled
        speak(second, "Now me.")
        first.close()
        wait_for(second, "player.finished")
        assert player(second)["stopReason"] == "end"
        assert engine.speeches[0].closed
    kept = storage.history.page().records
    assert {record.stop_reason for record in kept} == {"end", "cancelled"}, (
        "takes that were not played to the end are stored as well"
    )


def test_simultaneous_visitors_never_see_each_others_takes(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage
) -> None:
    """Covers takes with and without a history."""
    install_samples(library)
    url = serve(FakeEngine(Script(pace=0.2)), storage, "browser")
    with visit(chromium, url) as anna, visit(chromium, url) as ben:
        owners = OwnerResolver("browser", library.secret("signing"))
        for page, text, history in ((anna, "Hers alone.", True), (ben, "His alone.", False)):
            expect(picker(page)).to_have_value("Adam (sample)")
            token = page.evaluate("localStorage.getItem('reprise.owner')")
            storage.history.change_settings(history=history, owner=owners.resolve(None, token).key)
            speak(page, text)
        for page, own, other in ((anna, "Hers alone.", "His alone."), (ben, "His alone.", "Hers alone.")):
            wait_for(page, "player.finished")
            expect(page.locator(".rp-take")).to_have_count(1)
            expect(page.locator(".rp-take-text")).to_have_text(own)
            expect(page.get_by_text(other)).to_have_count(0)

        for victim, thieving in ((anna, ben), (ben, anna)):
            take = player(victim)["on"]
            thief = Visitor(url)
            thief.arrive()
            thief.token = thieving.evaluate("localStorage.getItem('reprise.owner')")
            (stolen,) = thief.event("fresh", "rp-takes", [thief.token], sent={"ids": [take]})
            assert (stolen["takes"], stolen["gone"]) == ([], [take])
            for kind in ("star", "erase"):
                asked = {"ids": [take], "id": take, "starred": True}
                assert 'role="alert"' in thief.event(kind, "rp-takes", [thief.token], sent=asked)[1]
        hers = player(anna)["on"]
        ben.evaluate(f"sessionStorage.setItem('reprise.takes', JSON.stringify([{{ id: '{hers}', ms: 1 }}]))")
        ben.reload()
        expect(picker(ben)).to_have_value("Adam (sample)")
        wait_for(ben, "sessionStorage.getItem('reprise.takes') === '[]'")
        expect(ben.locator(".rp-take")).to_have_count(0)
        for page in (anna, ben):
            page.evaluate("window.repriseTakes.refresh()")
        expect(anna.locator(".rp-take")).to_have_count(1)
        expect(anna.locator(".rp-take-star")).to_have_attribute("aria-pressed", "false")
