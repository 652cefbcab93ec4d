"""The page with models of another family: the library is kept, and the models' built-in voices appear."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from engine import Engine
from engine.audio import AudioFormat
from engine.messages import UserMessage
from engine.options import LoadOptions
from engine.request import turns
from engine.serving.device import choose_device
from engine.text import frame_budget
from storage import Storage
from studio.engines.model_manager import ModelManager
from studio.engines.model_switch import ModelCatalog
from studio.provenance.provenance import Provenance
from studio.takes.buffer import TakeBuffer
from studio.voices import voice_maker
from tests.engine.families.qwen3_tts.conftest import as_kind
from tests.paths import CLIP, QWEN
from tests.support.fake_engine import voice
from tests.web import conftest
from tests.web.visiting import open_settings, open_tab, pick, picker, speak, visit, wait_for

KINDS = ("base", "custom_voice", "voice_design")


class ClipTakeBuffer(TakeBuffer):
    """A take buffer that returns a clip, because random weights produce noise."""

    def encode(self, format: AudioFormat = "wav", provenance: Provenance | None = None) -> bytes:
        return CLIP.read_bytes()


@pytest.fixture
def choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelCatalog:
    """Miniature models of the family, with short turns."""
    monkeypatch.setattr(turns, "frame_budget", lambda text, rate: min(6, frame_budget(text, rate)))
    folders = {kind: QWEN if kind == "base" else as_kind(tmp_path / kind, kind) for kind in KINDS}

    def load(model: str, _report: object) -> Engine:
        return Engine(model, folders[model], choose_device("cpu"), LoadOptions(slots=1, graphs="off"))

    return ModelCatalog({kind: UserMessage("model.notice_qwen") for kind in KINDS}, lambda *_: None, load)


def load(page: Page, model: str) -> None:
    open_tab(page, "Status")
    page.get_by_label("Another model").click()
    page.get_by_role("option", name=model).click()
    page.get_by_role("button", name="Load model").click()
    expect(page.locator("#rp-status-notice")).to_have_text(f"{model} is ready.")


def speak_with(page: Page, name: str, text: str) -> None:
    """Speak with the picked voice; check that the take has sound and is the first of the list."""
    open_tab(page, "Speak")
    expect(picker(page)).to_have_value(name)
    speak(page, text)
    wait_for(page, "player.finished && player.length > 0")
    expect(page.locator(".rp-take").first).to_contain_text(text)


def test_saved_voices_speak_and_own_voices_appear(
    chromium: Browser, serve: Any, storage: Storage, choice: ModelCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.voices.add(voice("Anna"))
    monkeypatch.setattr(conftest, "ModelManager", lambda engine: ModelManager(engine, choice))
    base = choice.load("base", lambda *_: None)
    with visit(chromium, serve(base, storage), viewport={"width": 1280, "height": 900}) as page:
        rail = page.locator(".rp-rail-row")
        expect(rail).to_have_count(1)
        open_settings(page)
        top_k = page.locator("#rp-top-k input[type=number]")
        top_k.fill("7")
        top_k.press("Tab")
        page.get_by_label("Language of the text").click()
        page.locator("#rp-language").get_by_role("option", name="Deutsch").click()
        speak_with(page, "Anna", "The library is kept.")
        assert storage.history.page().records[0].settings["language"] == "de"
        open_tab(page, "New voice")
        page.locator(".rp-file").set_input_files(CLIP)
        expect(page.get_by_text("This model can do without them")).to_be_visible()
        page.get_by_label("Name of the voice").fill("Ben")
        page.get_by_label("Language of the voice").click()
        page.locator("#rp-voice-language").get_by_role("option", name="Français").click()
        page.get_by_label("I am Ben").check()
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Ben”.")  # without the words of the clip
        assert storage.voices.find("Ben").language == "fr"
        expect(picker(page)).to_have_value("Ben")
        expect(top_k).to_have_value("7")

        load(page, "custom_voice")
        open_tab(page, "New voice")
        expect(page.get_by_text("speaks with voices of its own")).to_be_visible()
        expect(page.get_by_role("button", name="Save voice")).to_be_hidden()
        open_tab(page, "Speak")
        expect(top_k).not_to_have_value("7")  # a setting of the other model
        expect(rail.locator(".rp-rail-name")).to_have_text(["Dylan", "Ryan", "Vivian", "Anna", "Ben"])
        expect(rail.first).to_contain_text("A built-in voice of the model")
        expect(rail.first.get_by_role("button")).to_have_count(2)  # no buttons to play or delete it
        page.get_by_role("button", name="Favourite: Vivian").click()
        expect(rail.locator(".rp-rail-name")).to_have_text(["Vivian", "Dylan", "Ryan", "Anna", "Ben"])
        pick(page, "Ryan (built-in)")
        speak_with(page, "Ryan (built-in)", "I am of the model.")

        monkeypatch.setattr(voice_maker, "TakeBuffer", ClipTakeBuffer)
        load(page, "voice_design")
        open_tab(page, "New voice")
        expect(page.locator("#rp-clip-block")).to_be_hidden()
        page.get_by_label("What the voice is like").fill("A low voice.")
        page.get_by_label("Name of the voice").fill("Cleo")
        page.get_by_role("button", name="Save voice").click()
        expect(page.locator("#rp-speak-notice")).to_contain_text("Saved “Cleo”.")
        expect(picker(page)).to_have_value("Cleo")
