"""Cutting what does not fit, at the place where a reader would notice it least."""

from collections.abc import Callable

from engine.text.sentences import inner_ends, is_clause_end, sentences, word_ends


def halve(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Text in pieces that fit: halved, and the halves again, each at the best place near the middle.

    That is between sentences, else after a clause, else between words, else (one endless word) between graphemes.
    A single grapheme stays as it is, whether it fits or not. No character is lost but white space at the cuts.
    """
    text = text.strip()
    if fits(text) or (cut := _best_cut(text)) is None:
        return [text]
    return halve(text[:cut], fits) + halve(text[cut:], fits)


def _best_cut(text: str) -> int | None:
    middle, reach = len(text) / 2, len(text) / 4
    whole = (0, len(text))
    ends = _inside(text, word_ends(text, whole))
    central = [end for end in ends if abs(end - middle) <= reach]
    full = {end for _, end in sentences(text, whole)}
    for cuts in (
        [end for end in central if end in full],
        [end for end in central if is_clause_end(text, end)],
        [end for end in central if text[end].isspace()],
        ends,
        _inside(text, inner_ends(text, whole)),
    ):
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    return None


def _inside(text: str, ends: list[int]) -> list[int]:
    return [end for end in ends if 0 < end < len(text)]
