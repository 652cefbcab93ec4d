"""Pronunciations: queries and changes within the caller's session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from engine.errors import InvalidInput
from engine.voice import MAX_LANGUAGE, check_field
from storage.models import PronunciationRow
from storage.repositories import owner_deletions
from storage.repositories.folding import fold_case
from storage.repositories.statements import put_row
from storage.validation import new_id

MAX_WORD = 80  # characters, as are the other text limits
MAX_SPOKEN = 200
MAX_ENTRIES = 2_000  # per owner


@dataclass(frozen=True)
class Pronunciation:
    """The pronunciation of a word. word: one or several words. spoken: the text read in its place.

    match_case: whether case must match. language: of the voices that it applies to, such as "en"; "" for all.
    Raises InvalidInput.
    """

    word: str
    spoken: str
    match_case: bool = False
    language: str = ""

    def __post_init__(self) -> None:
        check_field(self.word, "word", MAX_WORD)
        check_field(self.spoken, "spoken", MAX_SPOKEN)
        check_field(self.language, "language", MAX_LANGUAGE)
        if not any(letter.isalnum() for letter in self.word) or not self.spoken.strip():
            raise InvalidInput("words.empty")


def entries(*, session: Session, owner: str) -> list[Pronunciation]:
    """Return the owner's entries by word."""
    rows = session.scalars(select(PronunciationRow).where(PronunciationRow.owner == owner))
    found = [Pronunciation(row.word, row.spoken, row.match_case, row.language) for row in rows]
    return sorted(found, key=lambda entry: (entry.word.casefold(), entry.word, entry.language))


def put(*, session: Session, new: Iterable[Pronunciation], owner: str) -> None:
    """Add entries; one for the same word and language is replaced, in whatever case if case matters in neither.

    Raises InvalidInput for too many.
    """
    # Concurrent calls, and a deletion of all data, lock the rows in other orders.
    owner_deletions.lock(session=session, owner=owner)
    caseless: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in entries(session=session, owner=owner):
        if not entry.match_case:
            caseless[_folded(entry)].add(entry.word)
    for entry in new:
        alike = caseless[_folded(entry)]
        if entry.match_case:
            alike.discard(entry.word)
        else:
            for word in alike - {entry.word}:
                remove(session=session, word=word, language=entry.language, owner=owner)
            caseless[_folded(entry)] = {entry.word}
        put_row(
            session=session,
            table=PronunciationRow,
            key=["owner", "word", "language"],
            values={"id": new_id(), "owner": owner, **asdict(entry)},
        )
    count = session.scalar(select(func.count()).select_from(PronunciationRow).where(PronunciationRow.owner == owner))
    if (count or 0) > MAX_ENTRIES:
        raise InvalidInput("words.too_many", most=MAX_ENTRIES)


def _folded(entry: Pronunciation) -> tuple[str, str]:
    return fold_case(entry.word), entry.language


def remove(*, session: Session, word: str, language: str, owner: str) -> None:
    """Delete an entry. Idempotent. Raises InvalidInput."""
    check_field(word, "word", MAX_WORD)
    check_field(language, "language", MAX_LANGUAGE)
    same = PronunciationRow.owner == owner, PronunciationRow.word == word, PronunciationRow.language == language
    session.execute(delete(PronunciationRow).where(*same))


def remove_all(*, session: Session, owner: str) -> None:
    """Delete the owner's entries."""
    session.execute(delete(PronunciationRow).where(PronunciationRow.owner == owner))
