"""The committed evaluation set: whole, held out indeed, and understood by the judge."""

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.evaluation_set import FOLDER, EvaluationSet, Speaker
from benchmarks.judges.sphinx import SphinxRecogniser
from benchmarks.judges.words import word_error_rate, word_errors, words
from training.speech.sentences import is_held_out
from training.speech.speakers import HELD_OUT_TEACHER, speakers
from training.speech.speakers import Speaker as TrainingSpeaker


@pytest.fixture(scope="module")
def data() -> EvaluationSet:
    return EvaluationSet.load()


@pytest.fixture(scope="module")
def judge(data: EvaluationSet) -> SphinxRecogniser:
    return SphinxRecogniser.domain(data.domain, data.vocabulary())


def test_there_are_voices_with_references_and_sentences(data: EvaluationSet) -> None:
    assert len(data.speakers) == len({speaker.name for speaker in data.speakers}) == 20
    assert len({speaker.teacher for speaker in data.speakers}) == 20
    for speaker in data.speakers:
        assert len(speaker.sentences) == 3
        samples, rate = speaker.reference.read()
        assert rate == 22_050
        assert 4 <= len(samples) / rate <= 8


def test_no_sentence_was_trained_on(data: EvaluationSet) -> None:
    spoken = [clip.text for speaker in data.speakers for clip in speaker.sentences]
    assert all(is_held_out(text) for text in spoken)
    heard_in_training = {" ".join(words(text)) for text in data.domain}
    assert not heard_in_training & {" ".join(words(text)) for text in spoken}


def test_no_voice_was_trained_on(data: EvaluationSet) -> None:
    """The voices of the set are those that the lists of speakers hold out today, and no warp that is trained on."""
    pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the voices' warps")
    from benchmarks.make_evaluation_set import voices

    today = voices()
    assert [voice.name for voice in data.speakers] == [voice.name for voice in today]
    assert [voice.teacher for voice in data.speakers] == [voice.teacher for voice in today]
    assert all(voice.speaker.held_out for voice in today)
    trained = {_warp(speaker) for speaker in speakers() if not speaker.held_out}
    assert not trained & {_warp(voice.speaker) for voice in today}


def test_four_voices_have_a_teacher_that_no_training_has_heard(data: EvaluationSet) -> None:
    with_held_out_teacher = [speaker for speaker in data.speakers if speaker.teacher_held_out]
    assert all((HELD_OUT_TEACHER in speaker.teacher) == speaker.teacher_held_out for speaker in data.speakers)
    assert len(with_held_out_teacher) == 4
    assert any("pitch × 1.00, tract × 1.00" in speaker.teacher for speaker in with_held_out_teacher)


def test_the_set_is_whole_and_small(data: EvaluationSet) -> None:
    clips = {clip.path.name for speaker in data.speakers for clip in (speaker.reference, *speaker.sentences)}
    there = {path.name for path in FOLDER.glob("*.flac")}
    assert clips == there
    assert sum((FOLDER / name).stat().st_size for name in there) < 5_000_000


def test_some_voices_are_taken_from_all_over_the_set(data: EvaluationSet) -> None:
    assert data.spread(None) == data.spread(100) == data.speakers
    assert [data.speakers.index(speaker) for speaker in data.spread(4)] == [0, 5, 10, 15]
    assert data.spread(0) == ()


def test_the_judge_knows_every_word(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    unknown = {
        word
        for speaker in data.speakers
        for clip in speaker.sentences
        for word in words(clip.text)
        if not judge.knows(word)
    }
    assert unknown == set()


def test_the_judge_hears_the_teachers_and_nothing_in_reverse(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    forwards, backwards = [], []
    for speaker in data.speakers[::3]:
        clip = speaker.sentences[0]
        samples, rate = clip.read()
        forwards.append(word_errors(clip.text, judge.hear(samples, rate)))
        backwards.append(word_errors(clip.text, judge.hear(samples[::-1].copy(), rate)))
    assert word_error_rate(forwards) <= 0.25
    assert word_error_rate(backwards) >= 0.8


def test_what_was_heard_before_does_not_matter(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    one, other = (_first(speaker) for speaker in data.speakers[:2])
    before = judge.hear(*one)
    judge.hear(*other)
    assert judge.hear(*one) == before != ""


def test_silence_says_nothing(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    samples, rate = _first(data.speakers[0])
    assert judge.hear(samples[:0], rate) == ""
    assert len(words(judge.hear(samples * 0, rate))) <= 1


def _warp(speaker: TrainingSpeaker) -> tuple[object, ...]:
    return speaker.voice, speaker.pitch, speaker.tract, speaker.depth


def _first(speaker: Speaker) -> tuple[NDArray[np.float32], int]:
    return speaker.sentences[0].read()
