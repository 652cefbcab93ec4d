"""Word error counts, and the bigram language model of the judge."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judges.words import (
    END,
    START,
    WordErrors,
    recognised_words,
    word_error_rate,
    word_errors,
    words,
    write_bigram_model,
)

SENTENCES = ["The dog ran home.", "The dog ran away.", "A cat ran home!", "The cat sat."]
VOCABULARY = [*SENTENCES, "zebra"]
some_words = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=7).map(" ".join)


def test_words_are_lower_case_without_punctuation() -> None:
    assert words("“Don’t stop,” she said - 'now'!") == ["don't", "stop", "she", "said", "now"]


def test_digits_in_a_transcript_are_words() -> None:
    """Whisper writes numbers as digits; without them, correct speech has errors."""
    heard = recognised_words(" Every student paid $13 for 3 green apples at 6 o'clock.")
    assert heard == words("Every student paid thirteen dollars for three green apples at six o'clock.")


@pytest.mark.parametrize(
    ("spoken", "heard", "errors"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a c", 1),
        ("a b c", "a b d c", 1),
        ("a b c", "a d c", 1),
        ("a b c", "", 3),
        ("", "a b", 2),
        ("a b c d", "b c d a", 2),
        ("The dog.", "the DOG", 0),
    ],
)
def test_word_errors_are_the_edit_distance(spoken: str, heard: str, errors: int) -> None:
    assert word_errors(spoken, heard) == WordErrors(errors, len(spoken.split()))


@given(some_words, some_words, some_words)
def test_word_errors_are_a_metric(one: str, two: str, three: str) -> None:
    def distance(a: str, b: str) -> int:
        return word_errors(a, b).errors

    assert distance(one, one) == 0
    assert distance(one, two) == distance(two, one)
    assert distance(one, three) <= distance(one, two) + distance(two, three)
    lengths = len(one.split()), len(two.split())
    assert abs(lengths[0] - lengths[1]) <= distance(one, two) <= max(lengths)


def test_error_rate_weighs_utterances_by_their_words() -> None:
    assert word_error_rate([WordErrors(1, 1), WordErrors(0, 9)]) == pytest.approx(0.1)
    assert math.isnan(word_error_rate([]))


class Arpa:
    """A reader of ARPA files that backs off like a recogniser."""

    def __init__(self, path: Path) -> None:
        head, singles, pairs = path.read_text("utf-8").split("\\1-grams:")[0], {}, {}
        body = path.read_text("utf-8").split("\\1-grams:")[1]
        first, second = body.removesuffix("\n\\end\\\n").split("\\2-grams:")
        for line in first.split("\n"):
            if line:
                value, word, back_off = line.split()
                singles[word] = (float(value), float(back_off))
        for line in second.split("\n"):
            if line:
                value, one, two = line.split()
                pairs[one, two] = float(value)
        self.singles, self.pairs = singles, pairs
        self.counts = dict(line.removeprefix("ngram ").split("=") for line in head.split("\n") if "=" in line)

    def probability(self, first: str, second: str) -> float:
        if (first, second) in self.pairs:
            return 10 ** self.pairs[first, second]
        return 10 ** (self.singles[first][1] + self.singles[second][0])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Arpa:
    path = tmp_path_factory.mktemp("lm") / "domain.arpa"
    write_bigram_model(path, SENTENCES, VOCABULARY)
    return Arpa(path)


def test_arpa_header_counts_match_the_body(model: Arpa) -> None:
    assert model.counts == {"1": str(len(model.singles)), "2": str(len(model.pairs))}


def test_probabilities_after_each_word_sum_to_one(model: Arpa) -> None:
    following = [word for word in model.singles if word != START]
    assert END in following
    for first in model.singles:
        if first != END:
            total = sum(model.probability(first, second) for second in following)
            assert total == pytest.approx(1, abs=2e-4), first


def test_more_frequent_bigrams_are_more_likely(model: Arpa) -> None:
    assert model.probability(START, "the") > model.probability(START, "a") > model.probability(START, "zebra")
    assert model.probability("dog", "ran") > model.probability("dog", "sat")


def test_unseen_vocabulary_word_has_a_probability(model: Arpa) -> None:
    assert 0 < model.probability("the", "zebra") < model.probability("the", "dog")


def test_word_outside_the_vocabulary_is_not_in_the_model(tmp_path: Path) -> None:
    write_bigram_model(tmp_path / "lm.arpa", SENTENCES, ["the dog ran"])
    assert set(Arpa(tmp_path / "lm.arpa").singles) == {START, END, "the", "dog", "ran"}
