"""Where a text is cut when it does not fit: all places are found once, however many cuts are made."""

from bisect import bisect_left, bisect_right

from engine.text.sentences import Span, grapheme_ends, is_clause_end, sentences, tag_ends, word_ends


class Cuts:
    """The places to cut a text at: after sentences, after clauses, between words, else between graphemes."""

    def __init__(self, text: str, span: Span, *, full: bool = False) -> None:
        """full: the ends of sentences come before all others; else the span is one sentence."""
        self._text = text
        ends = word_ends(text, span)
        self._words = ends
        clauses = [end for end in ends if is_clause_end(text, end)]
        # In scripts that need no spaces between words, they part phrases.
        spaces = [end for end in ends if end < span[1] and text[end].isspace()]
        self._best = [clauses, spaces]
        if full:
            between = set(ends)
            self._best.insert(0, [end for _, end in sentences(text, span) if end in between])
        self._word: Span = (0, 0)  # the last that was cut itself
        self._ends_in_word: list[int] = []

    def best(self, span: Span) -> int | None:
        """The place near the middle of a part where a reader would notice a cut least; None: nowhere.

        Something but white space stands on both sides.
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
        """Where graphemes end in a word, and its parts."""
        word = self._word
        if not (word[0] <= span[0] and span[1] <= word[1]):
            self._ends_in_word, self._word = grapheme_ends(self._text, span), span
        return self._ends_in_word


def _nearest(places: list[int], middle: float, inside: Span) -> int | None:
    """The one nearest to `middle` between two others, the first of two that are equally near."""
    first, last = bisect_right(places, inside[0]), bisect_left(places, inside[1])
    at = bisect_left(places, middle, first, last)
    near = places[max(at - 1, first) : min(at + 1, last)]
    return min(near, key=lambda place: abs(place - middle), default=None)
