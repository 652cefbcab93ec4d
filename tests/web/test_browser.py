"""The page as a person uses it: real Gradio, real Chromium, a microphone that plays a voice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from engine.engine import Engine
from engine.voice import Voice
from storage import VoiceLibrary
from tests.web.conftest import PLAIN_HTTP_HOST, SPEECH, read_wav
from tests.web.fake_engine import FakeEngine, Script, voice
from web.page import SCRIPT

Serve = Callable[..., str]
WORDS = "The train was late, so we walked along the river."
PATIENCE = 120_000  # ms: a busy machine is slow, not wrong
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module", params=["fake", "bundled"])
def speaker(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each engine that the page must work with."""
    if request.param == "fake":
        yield FakeEngine(Script(pace=0.6))
        return
    engine = Engine.load("bundled", "cpu")
    yield engine
    engine.close()


@contextmanager
def visit(chromium: Browser, url: str) -> Iterator[Page]:
    """A page of a new visitor. Fails when its scripts do, or when it asks anyone but our server."""
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "console",
        lambda said: troubles.append(said.text) if said.type == "error" else None,
    )
    page.on("request", lambda asked: troubles.extend(_foreign(asked.url, url)))
    page.goto(url)
    expect(page.get_by_role("button", name="Speak", exact=True)).to_be_visible()
    yield page
    assert troubles == []
    context.close()


def _foreign(asked: str, home: str) -> list[str]:
    parts = urlsplit(asked)
    return [asked] if parts.scheme in ("http", "https") and parts.netloc != urlsplit(home).netloc else []


def player(page: Page) -> dict[str, Any]:
    stats: dict[str, Any] = page.evaluate("window.reprisePlayer.stats")
    return stats


def wait_for(page: Page, condition: str) -> None:
    page.wait_for_function(f"(() => {{ const player = window.reprisePlayer.stats; return {condition}; }})()")


def picker(page: Page) -> Locator:
    return page.get_by_label("Speak with")


def pick(page: Page, name: str) -> None:
    picker(page).click()
    page.get_by_role("option", name=name).click()
    expect(picker(page)).to_have_value(name)


def speak(page: Page, text: str) -> None:
    page.get_by_label("Text to speak").fill(text)
    page.get_by_role("button", name="Speak", exact=True).click()


def fill_form(page: Page, name: str) -> None:
    page.get_by_label("The words in this clip").fill(WORDS)
    page.get_by_label("Name of the voice").fill(name)
    page.get_by_label("the speaker has agreed").check()
    page.get_by_role("button", name="Save voice").click()
    expect(page.locator("#rp-shelf-notice")).to_contain_text(f"Saved “{name}”.")


def downloaded(page: Page, what: Locator) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        what.click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_record_save_reload_pick_speak_hear_download_stop(
    chromium: Browser, serve: Serve, library: VoiceLibrary, speaker: Any
) -> None:
    with visit(chromium, serve(speaker, library)) as page:
        expect(page.get_by_text("There is no voice here yet.")).to_be_visible()

        page.get_by_role("button", name="Record").click()
        expect(page.locator(".rp-say")).to_contain_text("Recording 4.")
        page.get_by_role("button", name="Stop", exact=True).first.click()
        expect(page.locator(".rp-say")).to_contain_text("Recorded 4.")
        fill_form(page, "Anna")
        expect(picker(page)).to_have_value("Anna")
        expect(page.get_by_text("There is no voice here yet.")).to_be_hidden()
        assert 2.0 < library.find("Anna").duration < 6.0

        library.add(voice("Ben"))
        page.reload()
        expect(picker(page)).to_have_value("Anna")
        pick(page, "Ben")
        pick(page, "Anna")

        speak(page, "We walked along the river. The train was late again.")
        wait_for(page, "player.finished")
        heard = player(page)
        assert heard["stopReason"] in ("end", "length"), heard["status"]
        assert heard["output"] == "worklet"
        assert heard["playedAtFinish"] > 0, "nothing sounded before all was spoken"
        assert heard["lost"] == 0
        assert "real-time factor" in heard["status"]
        name, wav = downloaded(page, page.get_by_role("link", name="Download WAV"))
        samples, rate = read_wav(wav)
        assert name == "Anna.wav"
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
        _, wav = downloaded(page, page.get_by_role("link", name="Download WAV"))
        assert len(read_wav(wav)[0]) == stopped["length"] > 0


def test_over_plain_http_a_file_is_uploaded_and_voices_are_kept_in_order(
    chromium: Browser, serve: Serve, library: VoiceLibrary
) -> None:
    library.add(voice("Ben"))
    url = serve(FakeEngine(Script(pace=0.3)), library).replace("127.0.0.1", PLAIN_HTTP_HOST)
    with visit(chromium, url) as page:
        page.get_by_role("button", name="New voice").click()
        expect(page.get_by_role("button", name="Record")).to_be_disabled()
        expect(page.locator(".rp-say")).to_contain_text("Open it as http://localhost:")
        page.get_by_role("button", name="Give me something to read").click()
        expect(page.get_by_label("The words in this clip")).to_have_value(SCRIPT)
        page.locator(".rp-file").set_input_files(SPEECH)
        expect(page.locator(".rp-say")).to_contain_text("flite_slt.flac is ready.")
        fill_form(page, "Anna `${alert(1)}` <b>{{x}}</b>")
        voice_name = library.list()[0].name
        expect(picker(page)).to_have_value(voice_name)

        speak(page, "Browsers have no audio thread here. It sounds all the same.")
        wait_for(page, "player.finished && player.position >= player.length - 1")
        heard = player(page)
        assert (heard["output"], heard["lost"], heard["underruns"]) == ("buffers", 0, 0)

        page.get_by_role("button", name="Manage this voice").click()
        expect(page.get_by_label("Name", exact=True)).to_have_value(voice_name)
        page.get_by_label("Name", exact=True).fill("Zoe")
        page.get_by_role("button", name="Rename").click()
        expect(picker(page)).to_have_value("Zoe")
        name, data = downloaded(page, page.get_by_role("button", name="Export"))
        assert (name, Voice.from_bytes(data).name) == ("Zoe.voice", "Zoe")
        page.get_by_role("button", name="Delete …").click()
        page.get_by_role("button", name="Delete for good").click()
        expect(picker(page)).to_have_value("Ben")
        assert [record.name for record in library.list()] == ["Ben"]


def test_whoever_waits_may_leave_and_whoever_leaves_frees_the_engine(
    chromium: Browser, serve: Serve, library: VoiceLibrary
) -> None:
    engine = FakeEngine(Script(pace=0.5))
    library.add(voice("Ben"))
    url = serve(engine, library)
    with visit(chromium, url) as first, visit(chromium, url) as second:
        expect(picker(first)).to_have_value("Ben")
        expect(picker(second)).to_have_value("Ben")
        speak(first, "A very long text. " * 40)
        wait_for(first, "player.chunks > 0")
        speak(second, "Me too.")
        expect(second.locator("#rp-player-block .progress-text")).to_contain_text("queue: 1/1")
        second.locator("#rp-stop").click()
        expect(second.locator(".rp-status")).to_have_text("Stopped before it began.")
        assert len(engine.speeches) == 1
        speak(second, "Now me.")
        first.close()
        wait_for(second, "player.finished")
        assert player(second)["stopReason"] == "end"
        assert engine.speeches[0].closed
