"""Pronunciation dictionaries: words of a text are replaced by how their owner wants them to be said, before it is
spoken. The texts of takes and cards stay as they were written. Dictionaries are exchanged as CSV.

An entry has a respelling, or phones in ARPAbet between slashes, "/T AH0 M EY1 T OW2/", for models that take phones.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import regex

from engine.errors import InvalidInput
from engine.languages import language_tag
from engine.text import GrowingText
from engine.text.english.pronunciation import parse_arpabet, phone_mark
from storage.pronunciations import MAX_ENTRIES, Pronunciation

if TYPE_CHECKING:
    from storage import Storage

COLUMNS = ("word", "spoken", "match_case", "language")
MAX_FILE = 1_000_000  # characters
_TAG = r"\[[^\[\]\n]{1,80}\]|<\|[^<>|\n]{0,64}\|>"  # pauses, styles and speakers, which are no words
_YES = frozenset({"1", "true", "yes", "x"})


def checked(entry: Pronunciation) -> Pronunciation:
    """An entry as it is kept: phones in capitals. Raises InvalidInput for what are no phones of ARPAbet."""
    if not _has_phones(entry):
        return entry
    inside = entry.spoken.strip()[1:-1]
    parse_arpabet(inside)
    return replace(entry, spoken=f"/{' '.join(inside.upper().split())}/")


def _has_phones(entry: Pronunciation) -> bool:
    spoken = entry.spoken.strip()
    return spoken[:1] == spoken[-1:] == "/" and bool(spoken[1:-1].strip())


def respelled(text: str, entries: Sequence[Pronunciation], language: str = "", *, phones: bool = False) -> str:
    """Replace the words of a text, the longest first.

    language: of the text, a tag or an English name; "" for an unknown one. phones: whether the model takes phones.
    Raises InvalidInput for a word that is given in phones where it takes none.
    """
    spoken = language_tag(language)
    valid = [entry for entry in entries if not entry.language or language_tag(entry.language) == spoken]
    if not valid:
        return text
    # An entry for this language goes before one for all of the same word.
    valid.sort(key=lambda entry: (-len(entry.word), not entry.language, not entry.match_case))
    words = "|".join(f"(?P<w{number}>{_pattern(entry)})" for number, entry in enumerate(valid))

    def said(found: regex.Match[str]) -> str:
        return _said(valid[int(found.lastgroup[1:])], phones) if found.lastgroup else found[0]

    return regex.sub(f"{_TAG}|{words}", said, text)


def _said(entry: Pronunciation, phones: bool) -> str:
    if not _has_phones(entry):
        return entry.spoken
    if not phones:
        raise InvalidInput("words.no_phones", word=entry.word)
    return phone_mark(parse_arpabet(entry.spoken.strip()[1:-1]))


def _pattern(entry: Pronunciation) -> str:
    """A whole word; scripts without spaces have no such ends."""
    word = r"\s+".join(map(regex.escape, entry.word.split()))
    left, right = (_end(entry.word.strip()[at]) for at in (0, -1))
    word = f"{'(?<!' + left + ')' if left else ''}{word}{'(?!' + right + ')' if right else ''}"
    return word if entry.match_case else f"(?i:{word})"


def _end(letter: str) -> str:
    if regex.match(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]", letter):
        return ""
    return r"[\p{L}\p{M}\p{N}]" if regex.match(r"[\p{L}\p{N}]", letter) else ""


def as_said(storage: Storage, text: str, language: str, *, owner: str, phones: bool) -> str:
    """A text in this language as it is sent to the engine. phones: whether the model takes them.

    Raises InvalidInput as `respelled` does, DatabaseUnavailable.
    """
    return respelled(text, storage.pronunciations.list(owner=owner), language, phones=phones)


def follow(storage: Storage, text: GrowingText, language: str, *, owner: str, phones: bool) -> None:
    """Let a growing text be respelled, sentence by sentence, as by `as_said`. Raises DatabaseUnavailable."""
    entries = storage.pronunciations.list(owner=owner)
    text.respell = partial(respelled, entries=entries, language=language, phones=phones)


def to_csv(entries: Sequence[Pronunciation]) -> str:
    """A dictionary as CSV with a line of column names."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((entry.word, entry.spoken, int(entry.match_case), entry.language) for entry in entries)
    return file.getvalue()


def from_csv(text: str) -> list[Pronunciation]:
    """Read a dictionary: a word and how it is said on each line, by commas or semicolons; case and language may follow.

    Raises InvalidInput for anything else, for phones that are none, and for more than 2,000 entries.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_FILE or "\0" in text:
        raise InvalidInput("words.bad_file")
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = list(islice(csv.reader(io.StringIO(text), delimiter=delimiter), MAX_ENTRIES + 2))
    except csv.Error as error:
        raise InvalidInput("words.bad_file") from error
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    if rows and [cell.lower() for cell in rows[0][:2]] == list(COLUMNS[:2]):
        del rows[0]
    if len(rows) > MAX_ENTRIES:
        raise InvalidInput("words.too_many", most=MAX_ENTRIES)
    if not rows or any(len(row) < 2 for row in rows):
        raise InvalidInput("words.bad_file")
    return [_entry(*row[:4]) for row in rows]


def _entry(word: str, spoken: str, match_case: str = "", language: str = "") -> Pronunciation:
    return checked(Pronunciation(word, spoken, match_case.lower() in _YES, language))
