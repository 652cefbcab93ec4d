"""The chunks of a speech with their text and words as written, for the API: before it is spoken, words are respelled.

The respellings are known, so their words are exactly those written. `written_words` aligns words without them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

import regex

from engine.text import Respelling
from engine.text.tags import SPACELESS, blank_tags, word_spans
from studio.words.written_words import bare_word, divided, pairs

if TYPE_CHECKING:
    from engine.outputs import AudioChunk, WordTime

# Words, and single letters of scripts without spaces: segments are cut between these.
_TOKEN = regex.compile(rf"{SPACELESS}\p{{M}}*+|(?:(?!{SPACELESS})\S)++")


@dataclass(eq=False)
class _Change:
    """Consecutive tokens that are spoken instead of others. written: "" once it has been told."""

    written: str


class _Segment:
    """A segment's text as written."""

    def __init__(self, text: Respelling) -> None:
        self.text = text.written
        self._places = _Places(text)

    def words(self, spoken: Sequence[WordTime]) -> Iterator[WordTime]:
        """Yield the written words of spoken ones; those that are respelled as one share its time, by length."""
        spans = [(word.offset, word.offset + len(word.text)) for word in spoken]
        for first, last, is_changed in self._places.joined(spans):
            start, stop = self._places.written(spans[first][0], spans[last][1])
            words = word_spans(self.text[start:stop]) if is_changed else [(0, stop - start)]
            times = divided(spoken[first].start, spoken[last].end, words)
            for (a, b), (begin, end) in zip(words, times, strict=True):
                text = self.text[start + a : start + b]
                yield replace(spoken[first], text=text, start=begin, end=end, offset=start + a)


class WrittenSpeech:
    """Gives the chunks of one speech, in their order, the text and words as written."""

    def __init__(self, texts: Sequence[Respelling]) -> None:
        """texts: the text of the speech, in parts; more may be added before they are spoken."""
        self._texts = texts
        self._known = 0  # texts whose tokens are known
        self._tokens: list[str] = []  # bare, as spoken
        self._respelled: list[_Change | None] = []  # of each token; None for one that is spoken as written
        self._next = 0  # token after those of the segments so far
        self._segments: dict[int, _Segment] = {}

    def restore(self, chunk: AudioChunk) -> AudioChunk:
        """Return a chunk with the text and words as written."""
        if chunk.segment not in self._segments:
            self._segments[chunk.segment] = self._segment(chunk.text)
        segment = self._segments[chunk.segment]
        return replace(chunk, text=segment.text, words=tuple(segment.words(chunk.words)))

    def _segment(self, text: str) -> _Segment:
        parts: list[tuple[str, str]] = []
        end = 0
        for start, stop, written in self._changes(text):
            parts += ((text[end:start],) * 2, (text[start:stop], written))
            end = stop
        return _Segment(Respelling((*parts, (text[end:],) * 2)))

    def _changes(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield start and end of the respellings in the text of the next segment, and what is written there."""
        while self._known < len(self._texts):
            for token, change in _tokens(self._texts[self._known]):
                self._tokens.append(token)
                self._respelled.append(change)
            self._known += 1
        spans = [found.span() for found in _TOKEN.finditer(blank_tags(text))]
        said = [bare_word(text[start:end]) for start, end in spans]
        found: list[tuple[tuple[int, int], _Change | None]] = []
        for a, b, c, d in pairs(said, self._tokens, self._next):
            self._next = d
            if said[a:b] == self._tokens[c:d]:
                found.append((spans[a], self._respelled[c]))
        for change, group in groupby(found, lambda each: each[1]):
            if change is not None:
                places = [place for place, _ in group]
                yield places[0][0], places[-1][1], change.written
                change.written = ""  # its other tokens may be in the next segment


def _tokens(text: Respelling) -> Iterator[tuple[str, _Change | None]]:
    """Yield the bare tokens of a text with their changes: one for all that a respelling consists of or touches."""
    spoken, written, places = text.spoken, text.written, _Places(text)
    spans = [found.span() for found in _TOKEN.finditer(blank_tags(spoken))]
    for first, last, is_changed in places.joined(spans):
        start, end = places.written(spans[first][0], spans[last][1])
        change = _Change(written[start:end]) if is_changed else None
        yield from ((bare_word(spoken[a:b]), change) for a, b in spans[first : last + 1])


class _Places:
    """Maps places of a respelled text as spoken to places of it as written."""

    def __init__(self, text: Respelling) -> None:
        self._changed = [spoken != written for spoken, written in text.parts]
        self._spoken = list(accumulate((len(spoken) for spoken, _ in text.parts), initial=0))
        self._written = list(accumulate((len(written) for _, written in text.parts), initial=0))

    def joined(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
        """Join spans as spoken that overlap the same respelling. Yields the numbers of the first and the last, and
        whether they overlap any.
        """
        touched = [self._respellings(*span) for span in spans]
        first = 0
        for at, here in enumerate(touched):
            if at + 1 == len(spans) or not here & touched[at + 1]:
                yield first, at, bool(here)
                first = at + 1

    def written(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end as written of a span as spoken, which is not empty. It includes whole respellings."""
        first, last = self._part(start), bisect_left(self._spoken, end) - 1
        after = 0 if self._changed[first] else start - self._spoken[first]
        before = 0 if self._changed[last] else self._spoken[last + 1] - end
        return self._written[first] + after, self._written[last + 1] - before

    def _respellings(self, start: int, end: int) -> set[int]:
        """Return the numbers of the changed parts that a span as spoken overlaps."""
        return {part for part in range(self._part(start), bisect_left(self._spoken, end)) if self._changed[part]}

    def _part(self, at: int) -> int:
        return bisect_right(self._spoken, at) - 1
