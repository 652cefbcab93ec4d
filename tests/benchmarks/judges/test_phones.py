"""The phone judge: error counts, and its accuracy on teachers and reversed speech."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.judges.phones import PhoneErrors, PhoneJudge, matched_phones, phone_error_rate
from training.recogniser.edits import edit_distance

some_phones = st.lists(st.sampled_from(["aa", "b", "k", "s"]), max_size=9)


@pytest.fixture(scope="module")
def judge() -> PhoneJudge:
    return PhoneJudge()


def test_spelled_has_no_marks_and_word_breaks(judge: PhoneJudge) -> None:
    assert judge.spelled("The cat, a dog?") == "dh ax k ae t ax d ao g".split()


def test_errors_are_counted_against_the_text(judge: PhoneJudge) -> None:
    assert judge.errors("The cat.", "dh ax k ae t".split()) == PhoneErrors(0, 5)
    assert judge.errors("The cat.", "dh k ae t s".split()) == PhoneErrors(2, 5)
    assert judge.errors("The cat.", []) == PhoneErrors(5, 5)
    assert phone_error_rate([PhoneErrors(1, 5), PhoneErrors(0, 15)]) == pytest.approx(0.05)


def test_judge_recognises_teachers_but_not_reversed_speech(judge: PhoneJudge) -> None:
    forwards, backwards = [], []
    for speaker in EvaluationSet.load().speakers[::4]:
        clip = speaker.sentences[1]
        samples, rate = clip.read()
        forwards.append(judge.errors(clip.text, judge.hear(samples, rate)))
        backwards.append(judge.errors(clip.text, judge.hear(samples[::-1].copy(), rate)))
    assert phone_error_rate(forwards) <= 0.15
    assert phone_error_rate(backwards) >= 0.75


def test_judge_hears_no_phones_in_silence(judge: PhoneJudge) -> None:
    assert judge.hear(np.zeros(16_000, dtype=np.float32), 16_000) == []
    assert judge.hear(np.zeros(0, dtype=np.float32), 16_000) == []


def test_judge_is_independent_of_loudness(judge: PhoneJudge) -> None:
    samples, rate = EvaluationSet.load().speakers[0].reference.read()
    assert edit_distance(judge.hear(samples, rate), judge.hear(samples * 0.1, rate)) <= 2


@given(some_phones, some_phones)
def test_found_phones_agree_with_edit_distance(truth: list[str], guess: list[str]) -> None:
    there, errors = matched_phones(truth, guess), edit_distance(truth, guess)
    assert len(there) == len(truth)
    assert max(len(truth), len(guess)) - errors <= sum(there) <= (len(truth) + len(guess) - errors) / 2
    assert all(matched_phones(truth, truth))


def test_missing_phones_are_not_found() -> None:
    truth = "dh ax k ae t s ih t s".split()
    assert matched_phones(truth, truth[:2] + truth[5:]) == [True] * 2 + [False] * 3 + [True] * 4
    assert matched_phones(truth, []) == [False] * 9
