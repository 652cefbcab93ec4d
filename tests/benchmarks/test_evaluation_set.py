"""The committed evaluation set is complete, held out from training, and understood by the judge."""

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
    pytest.importorskip("pocketsphinx", reason="pocketsphinx (requirements-lab.txt) is the judge")
    return SphinxRecogniser.domain(data.domain, data.vocabulary())


def test_set_has_twenty_voices_with_references_and_sentences(data: EvaluationSet) -> None:
    assert len(data.speakers) == len({speaker.name for speaker in data.speakers}) == 20
    assert len({speaker.teacher for speaker in data.speakers}) == 20
    for speaker in data.speakers:
        assert len(speaker.sentences) == 3
        samples, rate = speaker.reference.read()
        assert rate == 22_050
        assert 4 <= len(samples) / rate <= 8


def test_sentences_are_held_out_from_training(data: EvaluationSet) -> None:
    spoken = [clip.text for speaker in data.speakers for clip in speaker.sentences]
    assert all(is_held_out(text) for text in spoken)
    heard_in_training = {" ".join(words(text)) for text in data.domain}
    assert not heard_in_training & {" ".join(words(text)) for text in spoken}


def test_voices_are_held_out_from_training(data: EvaluationSet) -> None:
    """The set has the speakers that are currently held out, and no training speaker has the warp of one of them."""
    pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the voices' warps")
    from benchmarks.make_evaluation_set import voices

    current = voices()
    assert [voice.name for voice in data.speakers] == [voice.name for voice in current]
    assert [voice.teacher for voice in data.speakers] == [voice.teacher for voice in current]
    assert all(voice.speaker.held_out for voice in current)
    trained = {_warp(speaker) for speaker in speakers() if not speaker.held_out}
    assert not trained & {_warp(voice.speaker) for voice in current}


def test_four_voices_have_a_held_out_teacher(data: EvaluationSet) -> None:
    with_held_out_teacher = [speaker for speaker in data.speakers if speaker.teacher_held_out]
    assert all((HELD_OUT_TEACHER in speaker.teacher) == speaker.teacher_held_out for speaker in data.speakers)
    assert len(with_held_out_teacher) == 4
    assert any("pitch × 1.00, tract × 1.00" in speaker.teacher for speaker in with_held_out_teacher)


def test_set_has_exactly_its_clips_and_is_small(data: EvaluationSet) -> None:
    clips = {clip.path.name for speaker in data.speakers for clip in (speaker.reference, *speaker.sentences)}
    on_disk = {path.name for path in FOLDER.glob("*.flac")}
    assert clips == on_disk
    assert sum((FOLDER / name).stat().st_size for name in on_disk) < 5_000_000


def test_spread_picks_voices_across_the_set(data: EvaluationSet) -> None:
    assert data.spread(None) == data.spread(100) == data.speakers
    assert [data.speakers.index(speaker) for speaker in data.spread(4)] == [0, 5, 10, 15]
    assert data.spread(0) == ()


def test_judge_knows_every_word(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    unknown = {
        word
        for speaker in data.speakers
        for clip in speaker.sentences
        for word in words(clip.text)
        if not judge.knows(word)
    }
    assert unknown == set()


def test_judge_understands_teachers_but_not_reversed_speech(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    forwards, backwards = [], []
    for speaker in data.speakers[::10]:
        clip = speaker.sentences[0]
        samples, rate = clip.read()
        forwards.append(word_errors(clip.text, judge.hear(samples, rate)))
        backwards.append(word_errors(clip.text, judge.hear(samples[::-1].copy(), rate)))
    assert word_error_rate(forwards) <= 0.25
    assert word_error_rate(backwards) >= 0.8


def test_judge_keeps_no_state_between_clips(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    one, (other, rate) = (_first(speaker) for speaker in data.speakers[:2])
    before = judge.hear(*one)
    judge.hear(other[:rate], rate)
    assert judge.hear(*one) == before != ""


def test_judge_hears_no_words_in_silence(data: EvaluationSet, judge: SphinxRecogniser) -> None:
    samples, rate = _first(data.speakers[0])
    assert judge.hear(samples[:0], rate) == ""
    assert len(words(judge.hear(samples * 0, rate))) <= 1


def _warp(speaker: TrainingSpeaker) -> tuple[object, ...]:
    return speaker.voice, speaker.pitch, speaker.tract, speaker.depth


def _first(speaker: Speaker) -> tuple[NDArray[np.float32], int]:
    return speaker.sentences[0].read()
