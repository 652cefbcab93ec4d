"""Short forms in languages other than English: figures, Roman numerals, units and abbreviations, read as words.

A recogniser writes "zum Beispiel" or "fünf Kilometer" where a text has "z. B." or "5 km", or the other way round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum

import regex

from engine.text.sentences import sentence_spans

SIGN = r"(?:°(?:[cf]\b)?|[\p{Sc}%&@+=§№])"  # read as a word
_FIGURE = regex.compile(rf"\p{{N}}|{SIGN}")
_ROMAN = regex.compile(r"(?=[IVXLC]{2}|[IVX]\.)(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})(?:er?|ère|[èe]me|º|\.)?")
# Others are words: "1990 hat er", "2020 la mer".
_UNIT = regex.compile(
    r"(?:[cdkmµ]?m[²³]?|[kmµ]?[gs]|[cdhm]?l|[kmM]?[VW]|[kM]?Wh|[kMG]?Hz|[kKMGT]B|[htA]|min|sec|Std|Sek|Min|Jh|ha|zł|Kč|Ft"
    r"|[кмс]?м[²³]?|[км]?г|м?л|[тч]|мин|сек|руб|тыс|млн|млрд|[\p{L}--[\p{Latin}\p{Cyrillic}]]{1,3})\.?",
    regex.V1,
)
_NUMBER_SIGN = regex.compile(r"[Nn]\.?[º°]|№")
_DOUBLE = regex.compile(r"(\p{L})\1")  # of plurals: "EE. UU."
_NUMBER_BEFORE = regex.compile(r"(?r)\p{N}\s?")
_EDGE = r"[\p{Ps}\p{Pi}\p{Pe}\p{Pf}\"',;:!?]"
_EDGES = regex.compile(rf"^{_EDGE}+|(?<!{_EDGE}){_EDGE}+$")
_AT_END = frozenset("ecc etc itd itp usf usw".split())  # also end sentences


class Form(Enum):
    """How a word is written."""

    WORD = "word"
    FIGURE = "figure"
    SHORT = "short"  # a unit or an abbreviation


class Forms:
    """The forms of the words of a text.

    English texts have figures only, since other short forms are written out, and so have texts that may be English,
    where "I." is no Roman numeral.
    """

    def __init__(self, text: str, language: str) -> None:
        """language: a primary tag; "" if unknown."""
        self._text, self._figures_only = text, language in ("en", "")
        self._ends = set() if self._figures_only else {end for _, end in sentence_spans(text)}

    def of(self, words: Sequence[str], start: int, end: int) -> list[Form]:
        """Return the forms of the normalised words of a token. start, end: of the token in the text."""
        token = "" if self._figures_only else _EDGES.sub("", self._text[start:end])
        return [Form.FIGURE if _FIGURE.search(word) else self._form(word, token, start, end) for word in words]

    def _form(self, word: str, token: str, start: int, end: int) -> Form:
        if _ROMAN.fullmatch(token):
            return Form.FIGURE
        if _NUMBER_SIGN.match(token) or (_UNIT.fullmatch(token) and _NUMBER_BEFORE.match(self._text, 0, start)):
            return Form.SHORT
        if token.endswith("."):
            stopped = end not in self._ends or len(word) == 1 or word in _AT_END or _DOUBLE.fullmatch(word)
            return Form.SHORT if stopped else Form.WORD
        return Form.WORD


def same_reading(ours: Sequence[tuple[str, Form]], theirs: Sequence[tuple[str, Form]]) -> bool:
    """Whether words differ only in short forms on one side, and on the other in words that may be read for them."""
    plain, other = _without(ours, theirs), _without(theirs, ours)
    return _may_be_read(plain, other) or _may_be_read(other, plain)


def _without(words: Sequence[tuple[str, Form]], others: Sequence[tuple[str, Form]]) -> list[tuple[str, Form]]:
    """Return the words without those that are among the others."""
    left, rest = Counter(word for word, _ in others), []
    for word, form in words:
        if left[word]:
            left[word] -= 1
        else:
            rest.append((word, form))
    return rest


def _may_be_read(short: Sequence[tuple[str, Form]], words: Sequence[tuple[str, Form]]) -> bool:
    """Whether short forms may be read as so many words: "99" as "quatre vingt dix neuf", "4 %" as "vier Prozent"."""
    if not short or not words or any(form is Form.WORD for _, form in short):
        return False
    if any(form is Form.FIGURE for _, form in words):
        return False
    figures = "".join(word for word, form in short if form is Form.FIGURE)
    letters = _DOUBLE.sub(r"\1", "".join(word for word, form in short if form is Form.SHORT))
    read = "".join(word for word, _ in words)
    if letters and not (len(read) > len(letters) and _has_letters(letters, read, anywhere=bool(figures))):
        return False
    return len(words) <= 2 * len(figures) + 1 + len(letters)


def _has_letters(letters: str, read: str, *, anywhere: bool) -> bool:
    """Whether a text has these letters in their order, and begins with the first, unless it is allowed anywhere."""
    rest: Iterator[str] = iter(read)
    return (anywhere or letters[0] == read[0]) and all(letter in rest for letter in letters)
