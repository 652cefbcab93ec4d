"""Splitting of text that is too long, where a cut is least noticeable."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise

from engine.text.sentences import Span, grapheme_ends, is_clause_end, is_title, sentences, tag_ends, word_ends


def split_to_fit(text: str, fits: Callable[[str], bool], *, whole_text: bool = True) -> Iterator[str]:
    """Split text into stripped pieces that fit; see `fitting_spans`. Only whitespace at the cuts is lost."""
    text = text.strip()
    for start, end in fitting_spans(text, (0, len(text)), fits, whole_text=whole_text):
        yield text[start:end].strip()


def fitting_spans(text: str, span: Span, fits: Callable[[str], bool], *, whole_text: bool = False) -> Iterator[Span]:
    """Split a part of a text into spans that fit, by halving it recursively at the best place near the middle.

    Cuts are between sentences, else after a clause, else between words, else (in one endless word) between graphemes.
    A single grapheme is kept even if it does not fit. Together the spans cover the part.

    Args:
        fits: whether a stripped piece fits.
        whole_text: whether the part may hold more than one sentence.
    """
    if fits(text[slice(*span)].strip()):
        yield span
    else:
        yield from _halved(text, span, fits, CutPoints(text, span, whole_text=whole_text))


def _halved(text: str, span: Span, fits: Callable[[str], bool], points: "CutPoints") -> Iterator[Span]:
    cut = None if fits(text[slice(*span)].strip()) else points.best(span)
    if cut is None:
        yield span
    else:
        yield from _halved(text, (span[0], cut), fits, points)
        yield from _halved(text, (cut, span[1]), fits, points)


class CutPoints:
    """Places to cut a text: after sentences, after clauses, between words, else between graphemes.

    They are computed once for any number of cuts.
    """

    def __init__(self, text: str, span: Span, *, whole_text: bool = False) -> None:
        """whole_text: prefer ends of sentences to all other places; otherwise the span is one sentence."""
        self._text = text
        ends = word_ends(text, span)
        self._words = ends
        clauses = [end for end in ends if is_clause_end(text, end)]
        # In scripts without spaces between words, spaces separate phrases.
        spaces = [end for end in ends if end < span[1] and text[end].isspace()]
        # A number may be read together with its neighbours: "$5 million", "Dec 31". A title belongs to a name.
        numbers = [any(map(str.isdigit, text[start:end])) for start, end in pairwise([span[0], *ends])]
        beside = {end for end, near in zip(ends, pairwise([*numbers, False]), strict=True) if any(near)}
        beside |= {end for end in ends if is_title(text, end)}
        self._best = [clauses, [end for end in spaces if end not in beside], spaces]
        if whole_text:
            between = set(ends)
            self._best.insert(0, [end for _, end in sentences(text, span) if end in between])
        self._word: Span = (0, 0)  # the word that was cut last
        self._ends_in_word: list[int] = []

    def best(self, span: Span) -> int | None:
        """Return the place near the middle of a part where a cut is least noticeable; None if there is none.

        Both sides hold more than whitespace.
        """
        start, end = span
        middle, reach = (start + end) / 2, (end - start) / 4
        inside = (start, start + len(self._text[start:end].rstrip()))
        for kind in self._best:
            cut = _nearest(kind, middle, inside)
            if cut is not None and abs(cut - middle) <= reach:
                return cut
        cut = _nearest(self._words, middle, inside)
        if cut is None and (tags := tag_ends(self._text, span)):
            return _nearest(tags, middle, inside)
        return cut if cut is not None else _nearest(self._graphemes(span), middle, inside)

    def _graphemes(self, span: Span) -> list[int]:
        """Return the ends of graphemes in a word. They are cached for parts of the same word."""
        word = self._word
        if not (word[0] <= span[0] and span[1] <= word[1]):
            self._ends_in_word, self._word = grapheme_ends(self._text, span), span
        return self._ends_in_word


def _nearest(places: list[int], middle: float, inside: Span) -> int | None:
    """Return the place inside a span that is nearest to `middle`, the first of two equally near."""
    first, last = bisect_right(places, inside[0]), bisect_left(places, inside[1])
    at = bisect_left(places, middle, first, last)
    near = places[max(at - 1, first) : min(at + 1, last)]
    return min(near, key=lambda place: abs(place - middle), default=None)
