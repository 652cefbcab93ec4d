"""Late responses, and a server that stops and restarts."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from storage import Storage, VoiceLibrary
from storage.voices.samples import install_samples
from tests.paths import CLIP
from tests.storage.speaking import spoken
from tests.support.fake_engine import FakeEngine, voice
from tests.web.page_process import PageProcess
from tests.web.visiting import PATIENCE, hold_response, open_tab, pick, picker, player, speak, visit, wait_for

Serve = Callable[..., str]
pytestmark = pytest.mark.slow
GONE = "The server does not answer."


# ---- late responses

SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_late_response_for_a_deselected_voice_is_dropped(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    install_samples(library)
    _, ben, clara = library.list()[:3]
    with visit(chromium, serve(engine, storage)) as page:
        about = page.locator(".rp-about")
        expect(page.get_by_role("button", name="Hear this voice")).to_be_visible()
        with hold_response(page, ben.description, lambda: pick(page, "Ben (sample)")):
            pick(page, "Clara (sample)")
            expect(about).to_have_text(clara.description)
        page.evaluate(SETTLED)
        expect(about).to_have_text(clara.description)
        page.get_by_role("button", name="Hear this voice").click()
        wait_for(page, f"player.on === 'voice:{clara.id}'")


def test_history_shows_the_latest_search(
    chromium: Browser, serve: Serve, engine: FakeEngine, library: VoiceLibrary, storage: Storage
) -> None:
    for number in range(25):
        storage.history.add(spoken(f"Number {number}."))
    with visit(chromium, serve(engine, storage), clock=True) as page:
        open_tab(page, "History")
        entries, starred = page.locator(".rp-entry"), page.get_by_label("Starred only")
        expect(entries).to_have_count(20)
        refresh = lambda: page.evaluate("dispatchEvent(new Event('focus'))")  # noqa: E731
        page.clock.fast_forward(2_500)  # until then the page treats its list as fresh
        with hold_response(page, '"entries":', refresh):
            starred.check()
            expect(entries).to_have_count(0)
        page.evaluate(SETTLED)
        expect(entries).to_have_count(0)
        starred.uncheck()
        expect(entries).to_have_count(20)
        page.get_by_role("button", name="Show more").click()
        expect(entries).to_have_count(25)


# ---- server restart


@pytest.fixture
def server(library: VoiceLibrary, tmp_path: Path) -> Iterator[PageProcess]:
    library.add(voice("Anna"))
    library.add(voice("Ben"))
    process = PageProcess(tmp_path / "voices.db", 0.5)
    process.start()
    yield process
    process.close()


def test_page_survives_a_server_restart(chromium: Browser, server: PageProcess) -> None:
    visitor = chromium.new_context()
    visitor.set_default_timeout(PATIENCE)
    page = visitor.new_page()
    failed: list[str] = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(server.url)
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

    server.kill()
    gone = page.locator("#rp-connection").get_by_text(GONE)
    expect(gone).to_be_visible()
    expect(page.locator(".rp-status")).to_have_text(re.compile("broke off. What had arrived is here"))
    page.get_by_label("Text to speak").fill("Typed while it was gone.")
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.locator(".rp-status")).to_have_text(re.compile("before anything was spoken"))
    open_tab(page, "Library")
    expect(gone).to_be_visible()

    server.start()
    expect(page.get_by_text("The server is back.", exact=True)).to_be_visible()
    expect(gone).to_be_hidden()
    open_tab(page, "Speak")
    expect(page.get_by_label("Text to speak")).to_have_value("Typed while it was gone.")
    expect(picker(page)).to_have_value("Ben")
    page.get_by_role("button", name="Speak", exact=True).click()
    wait_for(page, "player.finished")
    assert player(page)["stopReason"] == "end"
    open_tab(page, "New voice")
    expect(page.get_by_label("The words in this clip")).to_have_value("Half a transcript")
    page.get_by_label("Name of the voice", exact=True).fill("Carla")
    page.locator("#rp-consent input").check()
    page.get_by_role("button", name="Save voice").click()
    expect(picker(page)).to_have_value("Carla")
    assert page.evaluate("window.same"), "the page was reloaded"
    assert failed == []
    visitor.close()
