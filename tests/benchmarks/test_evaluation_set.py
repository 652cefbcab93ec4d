"""The committed evaluation set: whole, held out indeed, and understood by the judge."""

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.evaluation_set import EvaluationSet, Speaker
from benchmarks.judge import Judge
from benchmarks.words import word_error_rate, word_errors, words
from training.sentences import is_held_out
from training.speakers import speakers


@pytest.fixture(scope="module")
def data() -> EvaluationSet:
    return EvaluationSet.load()


@pytest.fixture(scope="module")
def judge(data: EvaluationSet) -> Judge:
    return Judge.domain(data.domain, data.vocabulary())


def test_there_are_voices_with_references_and_sentences(data: EvaluationSet) -> None:
    assert len(data.speakers) >= 8
    for speaker in data.speakers:
        assert len(speaker.sentences) == 5
        samples, rate = speaker.reference.read()
        assert rate == 22_050
        assert 4 <= len(samples) / rate <= 8


def test_no_sentence_was_trained_on(data: EvaluationSet) -> None:
    spoken = [clip.text for speaker in data.speakers for clip in speaker.sentences]
    assert all(is_held_out(text) for text in spoken)
    heard_in_training = {" ".join(words(text)) for text in data.domain}
    assert not heard_in_training & {" ".join(words(text)) for text in spoken}


def test_no_voice_was_trained_on(data: EvaluationSet) -> None:
    """A voice of the set is the training's speaker of that number, as it is today, and held out."""
    known = {speaker.id: speaker for speaker in speakers()}
    for voice in data.speakers:
        speaker = known[int(voice.name.rpartition("-")[2])]
        assert speaker.held_out
        expected = f"{speaker.engine} {speaker.voice}, pitch × {speaker.pitch:.2f}, tract × {speaker.tract:.2f}"
        assert voice.teacher == expected


def test_the_judge_knows_every_word(data: EvaluationSet, judge: Judge) -> None:
    unknown = {
        word
        for speaker in data.speakers
        for clip in speaker.sentences
        for word in words(clip.text)
        if not judge.knows(word)
    }
    assert unknown == set()


def test_the_judge_hears_the_teachers_and_nothing_in_reverse(data: EvaluationSet, judge: Judge) -> None:
    forwards, backwards = [], []
    for speaker in data.speakers[::2]:
        clip = speaker.sentences[0]
        samples, rate = clip.read()
        forwards.append(word_errors(clip.text, judge.hear(samples, rate)))
        backwards.append(word_errors(clip.text, judge.hear(samples[::-1].copy(), rate)))
    assert word_error_rate(forwards) <= 0.25
    assert word_error_rate(backwards) >= 0.8


def test_what_was_heard_before_does_not_matter(data: EvaluationSet, judge: Judge) -> None:
    one, other = (_first(speaker) for speaker in data.speakers[:2])
    before = judge.hear(*one)
    judge.hear(*other)
    assert judge.hear(*one) == before != ""


def test_silence_says_nothing(data: EvaluationSet, judge: Judge) -> None:
    samples, rate = _first(data.speakers[0])
    assert judge.hear(samples[:0], rate) == ""
    assert len(words(judge.hear(samples * 0, rate))) <= 1


def _first(speaker: Speaker) -> tuple[NDArray[np.float32], int]:
    return speaker.sentences[0].read()
