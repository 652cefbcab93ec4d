"""Splitting of text that is too long, where cuts are least noticeable."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from engine.text.english.phrases import TIGHT, cut_cost
from engine.text.sentences import Span, grapheme_ends, is_clause_end, is_title, sentences, tag_ends, word_ends

# Costs of cuts, beside those between two words (`cut_cost`).
_AFTER_SENTENCE, _AFTER_CLAUSE = -6.0, -3.0
_WITHOUT_SPACE = 6.0  # in scripts in which spaces separate phrases
_EACH = 2.0
# Of a piece without text; a shorter piece than the longest costs this, times the square of the share that it lacks.
_EMPTY = 8.0
_PLACES = 12  # that are considered within the longest piece


class _Cut(NamedTuple):
    """A place to cut: the end of the piece before it, the start of the piece after it, bytes to that end, and cost."""

    end: int
    start: int
    offset: int
    cost: float


def written_size(text: str) -> int:
    """Return the size of a text in UTF-8 bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def split_to_fit(text: str, fits: Callable[[str], bool], *, whole_text: bool = True) -> Iterator[str]:
    """Split text into stripped pieces that fit; see `fitting_spans`. Only whitespace at the cuts is lost."""
    text = text.strip()
    for start, end in fitting_spans(text, (0, len(text)), fits, whole_text=whole_text):
        yield text[start:end].strip()


def fitting_spans(text: str, span: Span, fits: Callable[[str], bool], *, whole_text: bool = False) -> Iterator[Span]:
    """Split a part of a text into spans that fit, so that the costs of all cuts and pieces are least.

    Cuts cost least after sentences, then after clauses, then before words that begin a clause or a phrase, and most
    within phrases. Pieces cost the less the longer they are, so that few and similar ones are best. An endless word is
    cut between graphemes. A single grapheme is kept even if it does not fit. Together the spans cover the part.

    Args:
        fits: whether a stripped piece fits.
        whole_text: whether the part may hold more than one sentence.
    """
    if fits(text[slice(*span)].strip()):
        yield span
    else:
        yield from _split(text, span, fits, _cuts(text, span, whole_text=whole_text))


def best_end(text: str, limit: int) -> int | None:
    """Return where a part of an unfinished sentence ends best: the last of the cheapest places in its second half.

    limit: up to which the text may be cut. None if there is no place.
    """
    cuts = [cut for cut in _cuts(text, (0, len(text))) if cut.end <= limit]
    late = [cut for cut in cuts if 2 * cut.end >= limit] or cuts[-1:]
    return min(reversed(late), key=lambda cut: cut.cost).end if late else None


def _cuts(text: str, span: Span, *, whole_text: bool = False) -> list[_Cut]:
    """Return the places between the words of a part."""
    ends = word_ends(text, span)
    sentence_ends = {end for _, end in sentences(text, span)} if whole_text else set[int]()
    cuts: list[_Cut] = []
    offset, before = 0, span[0]
    for end, after in pairwise(ends):
        start = after - len(text[end:after].lstrip())
        offset += written_size(text[before:end])
        cost = _AFTER_SENTENCE if end in sentence_ends else _cost(text, (before, end), (start, after))
        cuts.append(_Cut(end, start, offset, cost))
        before = end
    return cuts


def _cost(text: str, word: Span, following: Span) -> float:
    """Return the cost of a cut between two words of a sentence."""
    (start, end), (at, stop) = word, following
    if is_clause_end(text, end):
        return TIGHT if text[end - 2].isdigit() and text[at:stop][:1].isdigit() else _AFTER_CLAUSE  # "May 5, 1990"
    before, after = text[start:end].split()[-1:], text[at:stop].split()[:1]
    if end == at or not before or not after:
        return _WITHOUT_SPACE
    return TIGHT if is_title(text, end) else cut_cost(*before, *after)


def _split(text: str, span: Span, fits: Callable[[str], bool], cuts: Sequence[_Cut]) -> Iterator[Span]:
    """Split a part that does not fit. cuts: places in it and around it."""
    part = text[slice(*span)]
    start, end = span[1] - len(part.lstrip()), span[0] + len(part.rstrip())
    first = bisect_right(cuts, start, key=lambda cut: cut.end)
    cuts = cuts[first : bisect_left(cuts, end, first, key=lambda cut: cut.end)]
    if not cuts:
        yield from _split_word(text, span, fits, grapheme_ends(text, span))
        return
    for piece in _cheapest(text, span, cuts, _capacity(part.strip(), fits)):
        if fits(text[slice(*piece)].strip()):
            yield piece
        else:
            yield from _split(text, piece, fits, cuts)


def _capacity(text: str, fits: Callable[[str], bool]) -> int:
    """Return the bytes of the longest beginning of a text that fits. The whole text does not."""
    least, most = 1, 2
    while most < len(text) and fits(text[:most].strip()):
        least, most = most, 2 * most
    most = min(most, len(text))
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(text[:middle].strip()) else (least, middle)
    return written_size(text[:least].strip())


def _cheapest(text: str, span: Span, cuts: Sequence[_Cut], capacity: int) -> Iterator[Span]:
    """Divide a part so that the costs are least. Pieces have at most `capacity` bytes if there are places for that."""
    width = -(-capacity // _PLACES)
    few = [min(near, key=lambda cut: cut.cost) for _, near in groupby(cuts, key=lambda cut: cut.offset // width)]
    starts = [
        few[0].offset - written_size(text[span[0] : few[0].end].lstrip()),
        *(cut.offset + cut.start - cut.end for cut in few),
    ]
    ends = [*(cut.offset for cut in few), few[-1].offset + written_size(text[few[-1].end : span[1]].rstrip())]
    costs, sources = [0.0], list[int]()  # of the pieces up to each place, and where the last of them starts
    for last, end in enumerate(ends):
        best, source = costs[last] + _too_short(end - starts[last], capacity), last
        for first in range(last - 1, -1, -1):
            size = end - starts[first]
            if size > capacity:
                break
            cost = costs[first] + _too_short(size, capacity)
            if cost < best:
                best, source = cost, first
        costs.append(best + _EACH + (few[last].cost if last < len(few) else 0.0))
        sources.append(source)
    chosen = [sources[-1]]
    while chosen[-1]:
        chosen.append(sources[chosen[-1] - 1])
    yield from pairwise([span[0], *(few[at - 1].end for at in chosen[-2::-1]), span[1]])


def _too_short(size: int, capacity: int) -> float:
    """Return the cost of a piece."""
    return _EMPTY * (1 - size / capacity) ** 2 if size < capacity else 0.0


def _split_word(text: str, span: Span, fits: Callable[[str], bool], graphemes: list[int]) -> Iterator[Span]:
    """Halve a word until its parts fit: after one of its tags, else between graphemes. graphemes: their ends."""
    part = text[slice(*span)]
    inside = span[1] - len(part.lstrip()), span[0] + len(part.rstrip())
    cut = None
    if not fits(part.strip()):
        cut = _nearest(tag_ends(text, span) or graphemes, sum(span) / 2, inside)
    if cut is None:
        yield span
    else:
        yield from _split_word(text, (span[0], cut), fits, graphemes)
        yield from _split_word(text, (cut, span[1]), fits, graphemes)


def _nearest(places: list[int], middle: float, inside: Span) -> int | None:
    """Return the place inside a span that is nearest to `middle`, the first of two equally near."""
    first, last = bisect_right(places, inside[0]), bisect_left(places, inside[1])
    at = bisect_left(places, middle, first, last)
    near = places[max(at - 1, first) : min(at + 1, last)]
    return min(near, key=lambda place: abs(place - middle), default=None)
