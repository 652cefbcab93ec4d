"""Detection of missing sentences in a take, and the tested pairs of voice and sentence."""

import numpy as np
import pytest

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.judges.phones import PhoneErrors, PhoneJudge
from benchmarks.judges.words import words
from benchmarks.quality.endings import TEXT, pairs, read, sentences_of
from benchmarks.quality.takes import Run

RUN = Run("anyone", "end", 1, 0.3, 0.2)


class FakePhoneJudge(PhoneJudge):
    """A judge that always hears the text `heard`."""

    heard = ""

    def hear(self, samples: object, sample_rate: int) -> list[str]:
        return self.spelled(self.heard)


@pytest.fixture(scope="module")
def judge() -> FakePhoneJudge:
    return FakePhoneJudge()


def test_text_has_two_hundred_words() -> None:
    assert len(words(TEXT)) == 200
    assert " ".join(sentences_of(TEXT)) == TEXT


@pytest.mark.parametrize("missing", [0, 7, 20])
def test_unspoken_sentence_is_missing(judge: FakePhoneJudge, missing: int) -> None:
    spoken = [sentence for at, sentence in enumerate(sentences_of(TEXT)) if at != missing]
    judge.heard = " ".join(spoken)
    found = read(TEXT, np.zeros(16_000, dtype=np.float32), 16_000, RUN, (), judge)
    assert found.missing == 1
    assert found.sentences[missing] < 0.5
    assert sum(share == 1.0 for share in found.sentences) >= len(spoken) - 2


def test_complete_take_has_no_missing_sentences(judge: FakePhoneJudge) -> None:
    judge.heard = TEXT
    found = read(TEXT, np.zeros(16_000, dtype=np.float32), 16_000, RUN, (), judge)
    assert (found.missing, found.phone_error, found.seconds) == (0, 0.0, 1.0)
    assert judge.errors(TEXT, judge.spelled(TEXT)) == PhoneErrors(0, len(judge.spelled(TEXT)))


def test_pairs_of_voice_and_sentence_are_unique() -> None:
    data = EvaluationSet.load()
    tried = [(speaker.name, clip.text) for speaker, clip in pairs(data, 200)]
    assert len(set(tried)) == len(tried) == 200
    assert {name for name, _ in tried} == {speaker.name for speaker in data.speakers}
    assert len({text for _, text in tried}) == 60
