"""Word times for a text as written, for takes. The engine reports them for the text that it was given, in which pauses
are missing, words are respelled and characters are cleaned.

Only both texts are known, so words that differ are aligned by their neighbours. `written_speech` knows the respellings.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.text.tags import word_spans
from storage.repositories.takes import TimedWord

if TYPE_CHECKING:
    from engine.audio.transcription import HeardWord
    from engine.outputs import WordTime

_REACH = 8  # maximum number of consecutive words that may be missing, added or respelled


class _Spoken(NamedTuple):
    """A spoken word; in scripts without spaces, a letter."""

    text: str
    start: float
    end: float


class WrittenWords:
    """Aligns spoken words with the words of a text, in order, segment by segment."""

    def __init__(self, text: str) -> None:
        self._spans = word_spans(text)
        self._words = [bare_word(text[start:end]) for start, end in self._spans]
        self._next = 0  # the first word that is not aligned yet

    def follow(self, spoken: Sequence[WordTime | HeardWord]) -> list[TimedWord]:
        """Align the next spoken words. Returns the written words that they correspond to, with their times."""
        parts = [part for word in spoken for part in _parts(word)]
        said = [bare_word(part.text) for part in parts]
        found: list[TimedWord] = []
        for a, b, c, d in pairs(said, self._words, self._next):
            found += self._timed(parts[a:b], self._spans[c:d])
            self._next = d
        return found

    def _timed(self, spoken: Sequence[_Spoken], spans: Sequence[tuple[int, int]]) -> Iterator[TimedWord]:
        """Divide the time of spoken words among the written ones that they correspond to, by length."""
        if not spoken or not spans:
            return
        times = divided(spoken[0].start, spoken[-1].end, spans)
        yield from (TimedWord(*span, *time) for span, time in zip(spans, times, strict=True))


def _parts(word: WordTime | HeardWord) -> Iterator[_Spoken]:
    """Divide the time of a word of several letters in a script without spaces among them."""
    spans = word_spans(word.text)
    if len(spans) < 2:
        yield _Spoken(word.text, word.start, word.end)
        return
    share = (word.end - word.start) / len(word.text)
    for start, end in spans:
        yield _Spoken(word.text[start:end], word.start + share * start, word.start + share * end)


def divided(begin: float, end: float, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[float, float]]:
    """Divide the time from `begin` to `end` among spans of a text, by length."""
    edges = list(accumulate((stop - start for start, stop in spans), initial=0))
    for before, after in pairwise(edges):
        yield begin + (end - begin) * before / edges[-1], begin + (end - begin) * after / edges[-1]


def bare_word(word: str) -> str:
    """Return a word in lower case, in one Unicode form and without punctuation, unless it has nothing else."""
    plain = unicodedata.normalize("NFKC", word).casefold()
    return "".join(filter(str.isalnum, plain)) or plain


def pairs(said: Sequence[str], written: Sequence[str], c: int) -> Iterator[tuple[int, int, int, int]]:
    """Pair words of `said` with words of `written` from `c` on, in order: said[a:b] is written[c:d].

    Where they differ, a pair extends to the nearest position from which both agree again; without one, words are paired
    one by one.
    """
    a = 0
    while a < len(said) and c < len(written):
        more, further = (1, 1) if said[a] == written[c] else _gap(said, a, written, c)
        yield a, a + more, c, c + further
        a, c = a + more, c + further


def _gap(said: Sequence[str], a: int, written: Sequence[str], c: int) -> tuple[int, int]:
    for total in range(1, 2 * _REACH + 1):
        for more in range(max(0, total - _REACH), min(total, _REACH) + 1):
            following, there = said[a + more : a + more + 2], written[c + total - more : c + total - more + 2]
            alike = min(len(following), len(there))
            if alike and following[:alike] == there[:alike]:
                return more, total - more
    return 1, 1
