"""Pronunciation dictionaries. Every call is one transaction."""

from __future__ import annotations

from collections.abc import Iterable

from storage.database import Database
from storage.repositories import pronunciations
from storage.repositories.pronunciations import MAX_ENTRIES, MAX_SPOKEN, MAX_WORD, Pronunciation
from storage.validation import LOCAL, checked_owner

Entries = list[Pronunciation]  # defined here because `list` is a method of the class


class Pronunciations:
    """Pronunciation dictionaries, one per owner. All methods may raise DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, *, owner: str = LOCAL) -> Entries:
        """Return the owner's entries by word."""
        with self._database.read() as session:
            return pronunciations.entries(session=session, owner=checked_owner(owner))

    def put(self, entries: Iterable[Pronunciation], *, owner: str = LOCAL) -> None:
        """Add all entries or none; each replaces one for the same word and language, in whatever case if case matters
        in neither. Raises InvalidInput.
        """
        with self._database.write() as session:
            pronunciations.put(session=session, new=entries, owner=checked_owner(owner))

    def delete(self, word: str, language: str = "", *, owner: str = LOCAL) -> None:
        """Delete an entry. Idempotent. Raises InvalidInput."""
        with self._database.write() as session:
            pronunciations.remove(session=session, word=word, language=language, owner=checked_owner(owner))


__all__ = ["MAX_ENTRIES", "MAX_SPOKEN", "MAX_WORD", "Pronunciation", "Pronunciations"]
