"""Words of clips by a library that is not installed: a stand-in of the same face."""

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.audio import transcription as module
from engine.audio.transcription import can_transcribe, transcribe
from engine.errors import EngineFailed, UnusableReference
from tests.paths import SPEECH

CLIP = SPEECH / "flite_slt.flac"


class FakeWhisper:
    made = 0

    def __init__(self, name: str, **_options: Any) -> None:
        FakeWhisper.made += 1
        if name != module.MODEL:
            raise ValueError(name)

    def transcribe(self, heard: np.ndarray, **_options: Any) -> tuple[Any, Any]:
        assert heard.dtype == np.float32
        seconds = len(heard) / 16_000
        return iter([SimpleNamespace(text=f" It lasts {seconds:.1f}"), SimpleNamespace(text=" seconds. ")]), None


@pytest.fixture
def whisper(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    fake = ModuleType("faster_whisper")
    fake.__spec__ = ModuleSpec("faster_whisper", None)
    fake.WhisperModel = FakeWhisper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", fake)
    module._model.cache_clear()
    FakeWhisper.made = 0
    yield fake
    module._model.cache_clear()


def test_without_the_library_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert not can_transcribe()
    with pytest.raises(EngineFailed, match="install faster-whisper"):
        transcribe(CLIP)


def test_the_words_are_those_of_the_whole_clip_and_the_model_is_loaded_once(whisper: ModuleType) -> None:
    assert can_transcribe()
    assert FakeWhisper.made == 0, "asking loads nothing"
    assert transcribe(CLIP) == "It lasts 3.1 seconds."
    assert transcribe(CLIP.read_bytes()) == "It lasts 3.1 seconds."
    assert FakeWhisper.made == 1


def test_what_fails_is_one_sentence(whisper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: Any, **_options: Any) -> Any:
        raise OSError("no network\nand a page of details")

    with pytest.raises(UnusableReference):
        transcribe(b"no sound")
    monkeypatch.setattr(FakeWhisper, "transcribe", fails)
    with pytest.raises(EngineFailed, match=r"no network Type them instead\.$"):
        transcribe(CLIP)
