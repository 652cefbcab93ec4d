"""Pronunciation dictionaries: words of a text are respelled as their owner wants them pronounced before it is spoken.

The texts of takes and cards stay as written. An entry has a respelling, or ARPAbet phones between slashes,
"/T AH0 M EY1 T OW2/", for models that accept phones. Dictionaries are imported and exported as CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING

import regex

from engine.errors import InvalidInput
from engine.languages import language_tag
from engine.text import GrowingText, Respelling
from engine.text.english.pronunciation import parse_arpabet, phone_mark
from engine.text.tags import SPACELESS, compose
from storage.pronunciations import MAX_ENTRIES, Pronunciation
from studio.script.formats.rows import read_rows
from studio.voices.languages import clean_language

if TYPE_CHECKING:
    from storage import Storage

COLUMNS = ("word", "spoken", "match_case", "language")
MAX_FILE = 1_000_000  # characters
_TAG = regex.compile(r"\[[^\[\]\n]{1,80}\]|<\|[^<>|\n]{0,64}\|>")  # pauses, styles and speakers, which are not words
_ALIKE = ("'’‘ʼ", "‐‑-")  # signs that texts use alike
_LIKE = {sign: f"[{signs}]" for signs in _ALIKE for sign in signs}
_FOLDED = {sign: signs[0] for signs in _ALIKE for sign in signs} | {"ı": "i"}  # to patterns, ı is an i without case
_YES = frozenset({"1", "true", "yes", "x"})


def checked(entry: Pronunciation) -> Pronunciation:
    """Return an entry as it is stored, with the tag of its language, and phones in upper case.

    Raises InvalidInput for an unknown language or invalid ARPAbet.
    """
    entry = replace(entry, language=clean_language(entry.language))
    if not _has_phones(entry):
        return entry
    inside = entry.spoken.strip()[1:-1]
    parse_arpabet(inside)
    return replace(entry, spoken=f"/{' '.join(inside.upper().split())}/")


def _has_phones(entry: Pronunciation) -> bool:
    spoken = entry.spoken.strip()
    return spoken[:1] == spoken[-1:] == "/" and bool(spoken[1:-1].strip())


def respell(text: str, entries: Sequence[Pronunciation], language: str = "", *, phones: bool = False) -> Respelling:
    """Respell the words of a text, in whatever form its accents, apostrophes and hyphens are. Longer entries take
    precedence.

    language: of the text, a tag or an English name; "" if unknown. phones: whether the model accepts phones.
    Raises InvalidInput for an entry with phones if the model does not accept them.
    """
    spoken = language_tag(language)
    valid = [entry for entry in entries if not entry.language or language_tag(entry.language) == spoken]
    if not valid:
        return Respelling.unchanged(text)
    # For the same word, an entry for this language precedes one for all languages.
    valid.sort(key=lambda entry: (-len(entry.word), not entry.language, not entry.match_case))
    text = compose(text)
    words = _words(text, valid)
    parts: list[tuple[str, str]] = []
    end = 0
    for start in sorted(words.keys() | {found.start() for found in regex.finditer(r"\[|<\|", text)}):
        if start < end:
            continue
        if tag := _TAG.match(text, start):
            parts.append((text[end : tag.end()],) * 2)
            end = tag.end()
        elif start in words:
            word_end, entry = words[start]
            parts += ((text[end:start],) * 2, (_respelling(entry, phones), text[start:word_end]))
            end = word_end
    return Respelling((*parts, (text[end:],) * 2))


def _words(text: str, entries: Sequence[Pronunciation]) -> dict[int, tuple[int, Pronunciation]]:
    """Return the end of the word at each position where an entry matches, and the first such entry.

    Patterns are slow, so that a large dictionary would take seconds: an entry is searched for only if the text has it
    in any case.
    """
    found: dict[int, tuple[int, Pronunciation]] = {}
    folded = _folded(" ".join(text.split()))
    for entry in entries:
        if _folded(" ".join(compose(entry.word).split())) in folded:
            for word in _compiled(_pattern(entry)).finditer(text, overlapped=True):
                found.setdefault(word.start(), (word.end(), entry))
    return found


def _folded(text: str) -> str:
    """Return a text of the same length in which all characters are equal that are alike in a pattern."""
    return "".join(_FOLDED.get(letter) or letter.casefold()[0] for letter in text)


def _respelling(entry: Pronunciation, phones: bool) -> str:
    if not _has_phones(entry):
        return entry.spoken
    if not phones:
        raise InvalidInput("words.no_phones", word=entry.word)
    return phone_mark(parse_arpabet(entry.spoken.strip()[1:-1]))


def _pattern(entry: Pronunciation) -> str:
    """Return a pattern for a whole word. Scripts without spaces have no word boundaries, and Korean particles follow
    words without a space.
    """
    plain = compose(entry.word)
    word = r"\s+".join("".join(_LIKE.get(sign) or regex.escape(sign) for sign in part) for part in plain.split())
    left, right = (_end(plain.strip()[at]) for at in (0, -1))
    right = r"" if regex.match(r"\p{Hangul}", plain.strip()[-1]) else right
    word = f"{'(?<!' + left + ')' if left else ''}{word}{'(?!' + right + ')' if right else ''}"
    return word if entry.match_case else f"(?i:{word})"


@lru_cache(maxsize=2 * MAX_ENTRIES)  # compiling takes a millisecond, and the package keeps only 500
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern, cache_pattern=False)


def _end(letter: str) -> str:
    """Return a pattern for what may not be beside a letter at the end of a word; "" for anything."""
    if regex.match(SPACELESS, letter) or not regex.match(r"[\p{L}\p{N}]", letter):
        return ""
    other = SPACELESS if regex.match(r"\p{Hangul}", letter) else rf"{SPACELESS}|\p{{Hangul}}"
    return rf"(?:(?!{other})[\p{{L}}\p{{M}}\p{{N}}])"


def respell_for_owner(storage: Storage, text: str, language: str, *, owner: str, phones: bool) -> Respelling:
    """Respell a text with its owner's dictionary, for the engine. language, phones: as in `respell`.

    Raises InvalidInput as `respell` does, DatabaseUnavailable.
    """
    return respell(text, storage.pronunciations.list(owner=owner), language, phones=phones)


def respell_growing(storage: Storage, text: GrowingText, language: str, *, owner: str, phones: bool) -> None:
    """Respell a growing text like `respell_for_owner`, as parts of it are taken. Raises DatabaseUnavailable."""
    entries = storage.pronunciations.list(owner=owner)
    text.respell = partial(respell, entries=entries, language=language, phones=phones)


def to_csv(entries: Sequence[Pronunciation]) -> str:
    """Format a dictionary as CSV with a header line."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((entry.word, entry.spoken, int(entry.match_case), entry.language) for entry in entries)
    return file.getvalue()


def from_csv(text: str) -> list[Pronunciation]:
    """Parse a dictionary: the columns of `COLUMNS`, the last two optional, with or without a header line.

    Columns are separated by commas, semicolons or tabs, or as a first line such as "sep=;" says. Raises InvalidInput
    for anything else, for invalid phones, for unknown languages, and for more than 2,000 entries.
    """
    if len(text) > MAX_FILE or "\0" in text:
        raise InvalidInput("words.bad_file")
    try:
        rows = list(islice(read_rows(text), MAX_ENTRIES + 2))
    except csv.Error as error:
        raise InvalidInput("words.bad_file") from error
    if rows and [cell.lower() for cell in rows[0][1][:2]] == list(COLUMNS[:2]):
        del rows[0]
    if len(rows) > MAX_ENTRIES:
        raise InvalidInput("words.too_many", most=MAX_ENTRIES)
    if all(len(row) < 2 for _, row in rows):
        raise InvalidInput("words.bad_file")
    return [_entry(line, row) for line, row in rows]


def _entry(line: int, row: Sequence[str]) -> Pronunciation:
    word, spoken, match_case, language = (*row, "", "", "")[:4]
    try:
        return checked(Pronunciation(word, spoken, match_case.lower() in _YES, language))
    except InvalidInput as error:
        raise InvalidInput("words.bad_line", line=line, why=error.message) from error
