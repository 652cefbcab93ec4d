"""Cutting a text that is too long at the least noticeable places."""

from collections.abc import Callable, Iterator

from engine.text.cuts import Cuts
from engine.text.sentences import Span


def halve(text: str, fits: Callable[[str], bool], *, full: bool = True) -> Iterator[str]:
    """Halve a text repeatedly until every part fits, each time at the best place near the middle.

    Cuts are between sentences, else after a clause, else between words, else (in one long word) between graphemes.
    A single grapheme is never cut. Only white space at the cuts is lost.

    Args:
        fits: whether a part can stay as it is.
        full: whether the text can have more than one sentence.
    """
    text = text.strip()
    if fits(text):
        yield text
    else:
        whole = (0, len(text))
        yield from _halved(text, whole, fits, Cuts(text, whole, full=full))


def _halved(text: str, span: Span, fits: Callable[[str], bool], cuts: Cuts) -> Iterator[str]:
    part = text[slice(*span)].strip()
    cut = None if fits(part) else cuts.best(span)
    if cut is None:
        yield part
    else:
        yield from _halved(text, (span[0], cut), fits, cuts)
        yield from _halved(text, (cut, span[1]), fits, cuts)
