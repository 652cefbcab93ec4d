"""Cutting what does not fit, at the place where a reader would notice it least."""

from collections.abc import Callable, Iterator

from engine.text.cuts import Cuts
from engine.text.sentences import Span


def halve(text: str, fits: Callable[[str], bool], *, full: bool = True) -> Iterator[str]:
    """Text in pieces that fit: halved, and the halves again, each at the best place near the middle.

    That is between sentences, else after a clause, else between words, else (one endless word) between graphemes.
    A single grapheme stays as it is, whether it fits or not. No character is lost but white space at the cuts.

    Args:
        fits: whether a piece may stay as it is.
        full: whether the text may hold more than one sentence.
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
