"""Speaking on the page, with Gradio and Chromium."""

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from engine import Engine
from storage import Storage, VoiceLibrary
from storage.repositories.voices.shared_voices import SampleVoice
from storage.voices.sample_voices import install_samples
from tests.api.conftest import end_turns_after
from tests.support.fake_engine import FakeEngine, Script, voice
from tests.support.waiting import until
from tests.web.conftest import read_wav
from tests.web.stage import PLAIN_HTTP_HOST
from tests.web.tabs.speak.test_streaming import LONG, join
from tests.web.visiting import downloaded, pick, picker, player, speak, visit, wait_for
from tests.web.visitor import Visitor
from web.identity.owners import OwnerResolver

Serve = Callable[..., str]
FRAMES = 8  # of the first take
# How far the page has moved by itself since it was opened, as browsers score it.
LAYOUT_SHIFT = """new Promise((done) => {
  const sum = (list) => list.getEntries().reduce((total, { value }) => total + value, 0);
  new PerformanceObserver((list) => done(sum(list))).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(0), 1000); // it has not moved
})"""
pytestmark = pytest.mark.slow


def download(page: Page) -> tuple[str, bytes]:
    return downloaded(page, page.locator("#rp-dock .rp-download"))


def test_pick_speak_hear_download_stop(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage, bundled_engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    install_samples(library)
    with visit(chromium, serve(bundled_engine, storage)) as page:
        expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
        expect(picker(page)).to_have_value("Adam (sample)")
        expect(page.locator(".rp-card")).to_be_visible()
        assert page.evaluate(LAYOUT_SHIFT) < 0.05, "the page moves when the server answers"
        pick(page, "Ben (sample)")

        with monkeypatch.context() as short:
            end_turns_after(FRAMES, short)
            speak(page, "We walked along.")
            wait_for(page, "player.finished")
        heard = player(page)
        assert heard["stopReason"] in ("end", "length"), heard["status"]
        assert heard["status"].startswith(("Spoken to the end", "Cut off"))
        expect(page.locator(".rp-first")).to_contain_text("ms after the click")
        name, wav = download(page)
        samples, rate = read_wav(wav)
        assert name == "Ben – We walked along.wav"
        assert rate == bundled_engine.info.sample_rate
        assert len(samples) == heard["length"]
        assert np.abs(samples.astype(int)).max() > 300, "the take is silent"
        wait_for(page, "player.position >= player.length - 1")
        assert (player(page)["output"], player(page)["lost"]) == ("worklet", 0)

        speak(page, "This sentence goes on and on, as the river does. " * 40)
        wait_for(page, f"player.ticket !== {heard['ticket']!r} && player.chunks > 0")  # before the take is complete
        page.locator("#rp-stop").click()
        wait_for(page, "player.finished")
        stopped = player(page)
        assert stopped["stopReason"] == "cancelled"
        assert "what was spoken is kept" in stopped["status"]
        assert len(read_wav(download(page)[1])[0]) == stopped["length"] > 0

        expect(page.locator(".rp-take")).to_have_count(2)
        expect(page.locator(".rp-take").first).to_contain_text("stopped by you")
        kept = storage.history.page().records
        assert [record.stop_reason for record in kept] == ["cancelled", heard["stopReason"]]


def test_visitors_wait_for_each_other_and_never_see_each_others_takes(
    chromium: Browser, serve: Serve, library: VoiceLibrary, storage: Storage
) -> None:
    """Covers a page over plain HTTP, takes with and without a history, and a page that is closed while it speaks."""
    name = "Anna `${alert(1)}` <b>{{x}}</b>"
    library.share([SampleVoice(voice(name), "I am Anna.")])
    engine = FakeEngine(Script(pace=0.05, line=True))
    local = serve(engine, storage, "browser")
    ben = Visitor(local)
    (voice_id,) = ben.arrive()["voices"]
    owners = OwnerResolver("browser", library.secret("signing"))
    his = owners.resolve(None, ben.token).key
    storage.history.change_settings(history=False, owner=his)
    spoken = ben.speak("His alone.", voice_id)["take"]
    with visit(chromium, local.replace("127.0.0.1", PLAIN_HTTP_HOST)) as page:
        expect(picker(page)).to_have_value(f"{name} (sample)")
        token = page.evaluate("localStorage.getItem('reprise.owner')")
        hers = owners.resolve(None, token).key
        speak(page, "Hers alone.")
        wait_for(page, "player.finished && player.position >= player.length - 1")
        expect(page.locator(".rp-take")).to_have_count(1)
        expect(page.locator(".rp-take-text")).to_have_text("Hers alone.")
        expect(page.locator(".rp-take")).to_contain_text(name)
        heard = player(page)
        assert (heard["output"], heard["lost"], heard["underruns"]) == ("buffers", 0, 0)
        for take, thief in ((heard["on"], ben.token), (spoken, token)):
            (stolen,) = ben.event("renew_links", "rp-takes", [thief], sent={"ids": [take]})
            assert (stolen["takes"], stolen["gone"]) == ([], [take])
        assert storage.history.page(owner=hers).total == 1
        assert storage.history.page(owner=his).total == 0

        # A waiting take is stopped.
        engine.script.pace = 0.5
        join(ben, LONG, voice_id)
        until(lambda: len(engine.speeches) == 3)
        speak(page, "Me too.")
        expect(page.locator(".rp-status")).to_have_text("Waiting: you are next.")
        page.locator("#rp-stop").click()
        expect(page.locator(".rp-status")).to_have_text("Stopped before anything was spoken.")
        long, stopped = engine.speeches[2:]
        assert stopped.cancelled

        # Another one is spoken when its turn comes.
        expect(page.locator(".rp-take")).to_have_count(1)  # none of his
        speak(page, "Now me.")
        expect(page.locator(".rp-status")).to_have_text("Waiting: you are next.")
        long.cancel()
        wait_for(page, "player.finished && player.stopReason === 'end'")

        # The next one is spoken when the page with the take before it is closed.
        speak(page, LONG)
        wait_for(page, "player.chunks > 0 && !player.finished")
        join(ben, "Now me.", voice_id, "another", "session")
        page.close()
        until(lambda: len(engine.speeches) == 7 and engine.speeches[6].result)
        until(lambda: engine.speeches[5].closed)
    until(lambda: storage.history.page(owner=hers).total == 3)  # a closed page's take is stored in a thread
    kept = storage.history.page(owner=hers).records
    assert [record.stop_reason for record in kept] == ["disconnected", "end", "end"], "a closed page's take is stored"
