"""Word-by-word comparison of a recogniser's transcript with the spoken text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import regex

from engine.languages import language_tag
from engine.text.clean import blank_marks
from engine.text.english.normalization import fold, written_out
from engine.text.english.numbers import cardinal, digits
from engine.text.tags import SPACELESS, blank_tags
from studio.proof.letters import plain_letters
from studio.proof.short_forms import SIGN, Form, Forms, same_reading
from studio.proof.spelling import one_spelling

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALONE = rf"(?:(?!\p{{N}}){SPACELESS}[\p{{M}}ﾞﾟ]*+)"  # no spaces: each letter counts as a word
# Telephone numbers are compared by digits: recognisers group them in any way.
_TELEPHONE = (
    r"(?<![\w.,])(?:(?:(?:\+\d{1,3}|1)[ .-]?)?\(?\d{3}\)?[ .-]?\d{3}[ .-]?\d{4}"
    r"|(?:\+\d{1,3} ?|0)\d{2,4}(?: \d{3,4}){1,3})(?![\w-]|[.,]\d)"
)
_TOKEN = regex.compile(rf"{_TELEPHONE}|{_ALONE}|(?:(?!{_ALONE})\S)+")
_WORD = regex.compile(rf"{_ALONE}|{SIGN}|(?:(?!{_ALONE})[^\W_])+")
# Within numbers, as in "7:30", "1,234", "10 000" and "555-1234": recognisers leave it out, or write another one.
_SEPARATOR = regex.compile(r"(?<=\d)[,:\s](?=\d)|(?<=\b\d{3})-(?=\d{4}\b)")
_PAIR = regex.compile(r"\b(?:24/7|50/50|20/20|9/11)\b")  # which may be written "24-7"
_SCALES = frozenset("hundred thousand million billion".split())
_NUMBERS = frozenset(cardinal(number) for number in (*range(1, 20), *range(20, 100, 10)))
_FILLERS = frozenset("er erm hm uh um".split())  # recognisers leave them out
_TIME = regex.compile(r"\b\d{1,2}:\d{2}\b")
_POINT_OF_TIME = regex.compile(r"(?<=\b\d{1,2})\.(?=\d{2}\b)")


@dataclass(frozen=True)
class Comparison:
    """Differences between a text and its transcript.

    word_error: word error rate: replaced, missing and added words per word of the text. marks: character ranges
    [from, to) of the words that differ; for an added word, the range of the word before it.
    """

    word_error: float
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Word:
    """A normalised word, how it is written, and the position of its token in the text."""

    normalised: str
    form: Form
    start: int
    end: int

    @property
    def reading(self) -> tuple[str, Form]:
        return self.normalised, self.form


def compare(text: str, transcript: str, language: str = "") -> Comparison:
    """Compare a text with its transcript, ignoring case, punctuation, optional accents and the spelling of numbers.

    Words that are only split differently are equal ("good bye", "goodbye"). Style tags and pauses are not words.
    English numbers, units and abbreviations are written out, and British and American spellings are equal; in other
    languages, digits are equal to any words in their place, and units and abbreviations to words with their letters. A
    transcript in English may lack "um".

    language: a tag or an English name; "" if unknown: the better of both comparisons.
    """
    tag = language_tag(language)
    readings = (tag,) if tag else ("en", "")
    text = blank_marks(blank_tags(text))
    found = (_compared(text, transcript, each, _FILLERS if tag else frozenset()) for each in readings)
    return min(found, key=lambda comparison: comparison.word_error)


def _compared(text: str, transcript: str, language: str, optional: frozenset[str]) -> Comparison:
    """Compare as `compare` does. optional: English words that may be missing in the transcript."""
    english = language == "en"
    truth, guess = _words(text, language), _words(transcript, language)
    if not truth:
        return Comparison(float(bool(guess)), ())
    errors, marks = 0, set[int]()
    said, heard = [word.normalised for word in truth], [word.normalised for word in guess]
    for a, b, c, d in _differences(said, heard):
        if "".join(said[a:b]) == "".join(heard[c:d]):
            continue
        if same_reading([word.reading for word in truth[a:b]], [word.reading for word in guess[c:d]]):
            continue
        if english and c == d and optional.issuperset(said[a:b]):
            continue
        around = ((_around(text, truth, a, b, more), _around(transcript, guess, c, d, more)) for more in (1, 2))
        if english and any(_read_alike(*both) for both in around):
            continue
        errors += max(b - a, d - c)
        marks |= set(range(a, b)) or {max(0, a - 1)}
    spans = sorted({(truth[at].start, truth[at].end) for at in marks if at < len(truth)})
    return Comparison(errors / len(truth), tuple(spans))


def _around(text: str, words: Sequence[_Word], start: int, end: int, more: int) -> str:
    """Return the part of a text with these words and so many more on either side."""
    within = words[max(0, start - more) : end + more]
    return text[within[0].start : within[-1].end] if within else ""


def _read_alike(said: str, heard: str) -> bool:
    """Whether English texts are read in the same words, their numbers written alike: "5 km", "five kilometers"."""
    paired = [_PAIR.sub(lambda pair: pair[0].replace("/", "-"), text) for text in (said, heard)]
    plain = [_SEPARATOR.sub("", text) for text in (said, heard)]
    if _TIME.search(said) or _TIME.search(heard):
        plain = [_POINT_OF_TIME.sub("", text) for text in plain]
    pairs = dict.fromkeys(((said, heard), tuple(paired), tuple(plain)))
    return any(_spoken(ours) == _spoken(theirs) for ours, theirs in pairs)


def _spoken(text: str) -> str:
    """Return the words of an English text as one."""
    return "".join(word for _, word in _plain_numbers(_normalised_words(text, "en")))


def _plain_numbers(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Iterate over words and their positions, with "one hundred two" for "a hundred and two"."""
    around = ["", *words, ""]
    for at in range(len(words)):
        before, word, following = around[at : at + 3]
        if word == "a" and following in (*_SCALES, "half"):
            yield at, "one"
        elif not (word == "and" and before in _SCALES and following in _NUMBERS):
            yield at, word


def _words(text: str, language: str) -> list[_Word]:
    english, forms = language == "en", Forms(text, language)
    words: list[_Word] = []
    for token in _TOKEN.finditer(text):
        normalised = _normalised_words(token[0], language)
        words += [
            _Word(word, form, *token.span())
            for word, form in zip(normalised, forms.of(normalised, *token.span()), strict=True)
        ]
    if not english:
        return words
    plain = _plain_numbers([word.normalised for word in words])
    return [replace(words[at], normalised=normalised) for at, normalised in plain]


def _normalised_words(token: str, language: str) -> list[str]:
    """Return the words of a token without case, optional accents and punctuation.

    English numbers and abbreviations are written out, and English words have one spelling.
    """
    english = language == "en"
    if english and regex.fullmatch(_TELEPHONE, token):
        return digits("".join(filter(str.isdecimal, fold(token)))).split()
    plain = plain_letters(written_out(token) if english else token, language)
    words = _WORD.findall(plain.replace("'", "").replace("’", ""))
    return [one_spelling(word) for word in words] if english else words


def _differences(truth: Sequence[str], guess: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return the differing parts of a shortest alignment: truth[a:b] was recognised as guess[c:d]."""
    most = min(len(truth), len(guess))
    tail = next((n for n in range(most) if truth[-1 - n] != guess[-1 - n]), most)
    head = next((n for n in range(most - tail) if truth[n] != guess[n]), most - tail)
    truth, guess = truth[head : len(truth) - tail], guess[head : len(guess) - tail]
    return [(head + a, head + b, head + c, head + d) for a, b, c, d in _aligned(truth, guess)]


def _aligned(truth: Sequence[str], guess: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return the differing parts as `_differences` does; its time and memory grow with the product of the lengths."""
    costs = _distances(truth, guess)
    found: list[tuple[int, int, int, int]] = []
    a, c = len(truth), len(guess)
    b, d = a, c
    while a or c:
        if a and c and truth[a - 1] == guess[c - 1] and costs[a][c] == costs[a - 1][c - 1]:
            if (a, c) != (b, d):
                found.append((a, b, c, d))
            a, c = a - 1, c - 1
            b, d = a, c
        elif a and c and costs[a][c] == costs[a - 1][c - 1] + 1:
            a, c = a - 1, c - 1
        elif a and costs[a][c] == costs[a - 1][c] + 1:
            a -= 1
        else:
            c -= 1
    if (a, c) != (b, d):
        found.append((a, b, c, d))
    return found[::-1]


def _distances(truth: Sequence[str], guess: Sequence[str]) -> NDArray[np.integer[Any]]:
    """Return the Levenshtein distances of all beginnings of two texts, in words `[truth + 1, guess + 1]`."""
    numbers: dict[str, int] = {}
    said, heard = (np.array([numbers.setdefault(word, len(numbers)) for word in each], int) for each in (truth, guess))
    dtype = np.int16 if len(said) + len(heard) <= np.iinfo(np.int16).max else np.int32
    costs = np.empty((len(said) + 1, len(heard) + 1), dtype)
    columns = costs[0] = np.arange(len(heard) + 1)
    for a, word in enumerate(said, 1):
        costs[a, 0] = a
        np.minimum(costs[a - 1, :-1] + (heard != word), costs[a - 1, 1:] + 1, out=costs[a, 1:])
        # Words that are added: each entry is at most one more than the one before it.
        costs[a] = np.minimum.accumulate(costs[a] - columns) + columns
    return costs
