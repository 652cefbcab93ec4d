"""Word errors of recognised text, and the recogniser's bigram model."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from engine.text.english.normalization import written_out
from training.recogniser.edits import edit_distance

START, END = "<s>", "</s>"
_DISCOUNT = 0.6
_NO_LOG = -99.0


@dataclass(frozen=True)
class WordErrors:
    """Number of insertions, deletions and substitutions, and the number of words in the text."""

    errors: int
    words: int


def words(text: str) -> list[str]:
    """Split English text into lower-case words, without punctuation except apostrophes within words."""
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("’", "'"))


def recognised_words(text: str) -> list[str]:
    """Split a transcript that may contain digits and signs, such as "$13": they are written out."""
    return words(written_out(text))


def word_errors(said: str, heard: str) -> WordErrors:
    """Count the word errors (Levenshtein distance) of `heard` against `said`."""
    truth, guess = words(said), words(heard)
    return WordErrors(edit_distance(truth, guess), len(truth))


def word_error_rate(errors: Iterable[WordErrors]) -> float:
    """Return all errors over all words of a set of utterances; nan when there are no words."""
    total, count = 0, 0
    for each in errors:
        total, count = total + each.errors, count + each.words
    return total / count if count else math.nan


def write_bigram_model(path: Path, sentences: Iterable[str], vocabulary: Iterable[str]) -> None:
    """Write a bigram model in ARPA format, with absolute discounting and Katz back-off.

    The model has only the words of `vocabulary`; every word gets half a count in addition to its own. After every
    word, the probabilities of the vocabulary and of the sentence end sum to one.
    """
    counts = _count(sentences)
    singles = _unigrams(counts, vocabulary)
    followers = _followers(counts, singles)
    pairs = [line for first in sorted(followers) for line in _bigram_lines(first, followers[first])]
    lines = ["\\data\\", f"ngram 1={len(singles) + 1}", f"ngram 2={len(pairs)}", "", "\\1-grams:"]
    lines.append(f"{_NO_LOG:.5f} {START} {_back_off(followers.get(START, {}), singles):.5f}")
    for word in sorted(singles):
        lines.append(f"{math.log10(singles[word]):.5f} {word} {_back_off(followers.get(word, {}), singles):.5f}")
    lines += ["", "\\2-grams:", *pairs, "", "\\end\\", ""]
    path.write_text("\n".join(lines), "utf-8")


def _count(sentences: Iterable[str]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for sentence in sentences:
        chain = [START, *words(sentence), END]
        counts.update(pairwise(chain))
    return counts


def _unigrams(counts: Counter[tuple[str, str]], vocabulary: Iterable[str]) -> dict[str, float]:
    known = {word for entry in vocabulary for word in words(entry)} | {END}
    seen: Counter[str] = Counter()
    for (_, word), count in counts.items():
        if word in known:
            seen[word] += count
    total = sum(seen.values()) + 0.5 * len(known)
    return {word: (seen[word] + 0.5) / total for word in known}


def _followers(counts: Counter[tuple[str, str]], singles: dict[str, float]) -> dict[str, dict[str, int]]:
    followers: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (first, second), count in counts.items():
        if second in singles and (first == START or first in singles):
            followers[first][second] = count
    return followers


def _bigram_lines(first: str, seconds: dict[str, int]) -> Sequence[str]:
    total = sum(seconds.values())
    return [
        f"{math.log10((count - _DISCOUNT) / total):.5f} {first} {second}" for second, count in sorted(seconds.items())
    ]


def _back_off(seconds: dict[str, int], singles: dict[str, float]) -> float:
    """Return log10 of the back-off weight after a word: the discounted mass over the mass of the unseen unigrams."""
    if not seconds:
        return 0.0
    freed = _DISCOUNT * len(seconds) / sum(seconds.values())
    unseen = 1.0 - sum(singles[second] for second in seconds)
    return math.log10(freed / unseen) if unseen > 1e-9 else _NO_LOG
