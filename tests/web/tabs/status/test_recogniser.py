"""The speech recogniser: permission to install it, and one click from a clip to its transcript."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.audio.transcription import MODELS
from engine.errors import EngineFailed
from storage import Storage
from studio import recognition as module
from tests.paths import CLIP
from tests.support.fake_engine import FakeEngine
from tests.web.conftest import make_context
from tests.web.visiting import open_tab, violations
from web.identity.owners import OwnerMode
from web.tabs.status.recogniser import RecogniserHandlers

WORDS = "The train was late, so we walked along the river."
LOCAL: Any = SimpleNamespace(session_hash="mine", headers={}, client=None, state=SimpleNamespace(), cookies={})


class Machine:
    """A fake environment of the recogniser's package. failure: raised by the next installation or transcription."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.installed, self.failure = False, list[Exception]()
        monkeypatch.setattr(module, "can_transcribe", lambda: self.installed)
        monkeypatch.setattr(module, "model_is_here", lambda model: self.installed and model in MODELS)
        monkeypatch.setattr(module, "pip_install", self.install)
        monkeypatch.setattr(module, "load_model", lambda _model: None)
        monkeypatch.setattr(module, "transcribe", self.transcribe)

    def install(self, _requirement: str, report: Callable[[str], object]) -> None:
        report("ctranslate2")
        if self.failure:
            raise self.failure.pop()
        self.installed = True

    def transcribe(self, _clip: object, model: str, _language: str) -> str:
        if self.failure:
            raise self.failure.pop()
        return f"{WORDS} ({model})"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("mode", ["local", "browser", "user", "hub"])
def test_only_the_server_operator_installs_packages(
    mode: OwnerMode, machine: Machine, storage: Storage, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(FakeEngine(), storage, tmp_path, mode)
    monkeypatch.setattr(type(context), "owner", lambda *_given: SimpleNamespace(kind="local", key="local"))
    handlers = RecogniserHandlers(context)
    answer = handlers.install("", LOCAL, SimpleNamespace(_data={"model": "tiny"}))  # type: ignore[arg-type]
    assert (answer["allowed"], answer["ready"], answer["step"], answer["model"]) == (False, False, None, "small")
    assert "operator can enable them" in answer["failure"]
    machine.installed = True
    storage.settings.put("recogniser", "/srv/models/own")
    state = handlers.refresh("", LOCAL)
    assert (state["ready"], state["here"], state["model"]) == (True, False, "own")
    assert "/srv" not in str(state), "no paths of the server are shown"


def transcribe_with_one_click(page: Page, machine: Machine) -> None:
    """Install the recogniser from a clip and from the Status tab, at which the page then is."""
    machine.failure = [EngineFailed("engine.recogniser_not_installed", why="no connection", package="faster-whisper")]
    open_tab(page, "New voice")
    page.locator(".rp-file").set_input_files(CLIP)
    write = page.get_by_role("button", name="Transcribe for me")
    write.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Automatic transcripts")
    expect(dialog).to_contain_text("installs the package faster-whisper with what it needs (about 70 MB)")
    expect(dialog).to_contain_text("its model (480 MB)")
    dialog.get_by_label("Model").select_option("tiny")
    expect(dialog).to_contain_text("its model (75 MB)")
    assert violations(page, ".rp-recogniser") == []
    dialog.get_by_role("button", name="Install").click()
    expect(dialog.get_by_role("alert")).to_contain_text("could not be installed (no connection)")
    assert not machine.installed
    dialog.get_by_role("button", name="Install").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_label("The words in this clip")).to_have_value(f"{WORDS} (tiny)")
    # A failure is shown beside the button, which is far below the status line on a phone.
    machine.failure = [EngineFailed("engine.no_recogniser_model", model="tiny", why="no connection")]
    write.press("Enter")
    expect(page.locator(".rp-words-findings")).to_contain_text("could not be downloaded")
    write.press("Enter")
    expect(page.locator(".rp-words-findings")).to_be_empty()
    open_tab(page, "Status")
    page.get_by_role("button", name="Automatic transcripts").click()
    expect(dialog).to_contain_text("The model “tiny” is ready to transcribe.")
    dialog.get_by_label("Model").select_option("base")
    expect(dialog.get_by_role("button", name="Use this model (145 MB)")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
