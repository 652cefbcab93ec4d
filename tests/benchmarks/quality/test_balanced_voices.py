"""The voices of the balanced sentences."""

from pathlib import Path

import pytest

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.quality.balanced_sentences import sentences
from training.speech.sample_voices import DESIGNS
from training.speech.speakers import Speaker

pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the voices' warps")

from benchmarks.quality import balanced_voices
from benchmarks.quality.balanced_voices import BalancedSet


def test_voices_are_grouped_by_training_sex_and_pitch() -> None:
    def maker(voice: str, hertz: float) -> Speaker:
        return Speaker(0, "flite", voice, 1.0, 1.0, 1.0, 1.0, 0.0, 0, hertz, True)

    makers = {"Adam": maker("rms", 129.9), "low": maker("slt", 130.0), "high": maker("slt", 190.0)}
    assert BalancedSet(EvaluationSet((), ()), makers).groups() == {
        "all voices": {"Adam", "low", "high"},
        "sample voices, in training": {"Adam"},
        "held-out voices": {"low", "high"},
        "women's voices": {"low", "high"},
        "men's voices": {"Adam"},
        "voices below 130 Hz": {"Adam"},
        "voices 130 to 190 Hz": {"low"},
        "voices above 190 Hz": {"high"},
        "Adam": {"Adam"},
    }


@pytest.mark.slow
def test_voices_are_rendered_with_their_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balanced_voices, "sentences_of", lambda number: sentences()[number : number + 1])
    monkeypatch.setattr(balanced_voices, "DESIGNS", DESIGNS[:1])
    found = balanced_voices.render(tmp_path, EvaluationSet.load(), held_out=2)
    assert [speaker.name for speaker in found.data.speakers][-2:] == ["festival-ked-121", "flite-slt-19"]
    assert len(found.data.speakers) == 3
    for number, speaker in enumerate(found.data.speakers):
        assert [clip.text for clip in speaker.sentences] == [sentences()[number]]
        for clip in (speaker.reference, *speaker.sentences):
            samples, rate = clip.read()
            assert rate == 22_050
            assert len(samples) > rate


@pytest.mark.slow
def test_held_out_voices_can_be_rendered_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balanced_voices, "sentences_of", lambda number: sentences()[number : number + 1])
    found = balanced_voices.render(tmp_path, EvaluationSet.load(), held_out=1, samples=False)
    assert [speaker.name for speaker in found.data.speakers] == ["festival-ked-121"]
    assert set(found.groups()) == {"all voices", "held-out voices", "men's voices", "voices below 130 Hz"}
