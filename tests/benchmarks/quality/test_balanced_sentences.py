"""The balanced sentences are not in any training text, and contain all phones."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.judges.words import words
from benchmarks.quality.balanced_sentences import PER_VOICE, sentences, sentences_of
from engine.release.hub import BUNDLED
from engine.text.english.pronunciation import PHONES, Lexicon
from engine.text.tokenizer import LEXICON_FILE
from tests.training.fortunes import needs_fortunes
from training.speech import sentences as trained


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.load(BUNDLED / LEXICON_FILE)


def test_balanced_sentences_use_words_outside_the_templates() -> None:
    """Templates use the words of their module; each balanced sentence has at least two other words."""
    template_words = set(words(Path(trained.__file__).read_text("utf-8")))
    assert set(words(next(trained.template_sentences(5)))) <= template_words
    assert not [text for text in sentences() if len(set(words(text)) - template_words) < 2]


def joined(texts: Iterable[str]) -> str:
    """Return the words of the texts in small letters, with a slash between two texts."""
    return " / ".join(" ".join(words(text)) for text in texts)


def test_balanced_sentences_are_in_no_corpus() -> None:
    """The corpora are the judge's training sentences and the evaluation set."""
    data = EvaluationSet.load()
    spoken = [clip.text for speaker in data.speakers for clip in (speaker.reference, *speaker.sentences)]
    known = joined([*data.domain, *spoken])
    assert joined(data.domain[:1]) in known
    assert not [text for text in sentences() if joined([text]) in known]


@needs_fortunes
def test_balanced_sentences_are_no_quotations(lexicon: Lexicon) -> None:
    known = joined(trained.fortune_sentences(lexicon))
    assert not [text for text in sentences() if joined([text]) in known]


def test_each_group_of_twenty_has_all_phones_and_plain_words(lexicon: Lexicon) -> None:
    assert len(set(sentences())) == len(sentences()) == 60
    for number in range(3):
        chosen = sentences_of(number)
        assert len(chosen) == PER_VOICE
        assert set(PHONES) <= {phone for text in chosen for phone in lexicon.phones(text).split()}
    assert set(sentences_of(0)) | set(sentences_of(1)) | set(sentences_of(2)) == set(sentences())
    assert sentences_of(3) == sentences_of(0)
    assert all(re.fullmatch(r"[A-Z][A-Za-z', ]+\.", text) and 7 <= len(words(text)) <= 12 for text in sentences())
