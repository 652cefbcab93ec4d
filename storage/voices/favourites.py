"""Favourite voices. Every call is one transaction."""

from __future__ import annotations

from engine.voice import is_built_in_voice
from storage.database import Database
from storage.repositories.voices import favourites, voices
from storage.validation import LOCAL, checked_owner


class Favourites:
    """Voices marked by owners, including shared and models' own ones. All methods may raise DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ids(self, *, owner: str = LOCAL) -> set[str]:
        """Return the ids of the marked voices."""
        with self._database.read() as session:
            return favourites.ids(session=session, owner=checked_owner(owner))

    def mark(self, voice_id: str, marked: bool = True, *, owner: str = LOCAL) -> None:
        """Mark a voice, saved or a model's own, or remove the mark.

        Raises VoiceNotFound for a saved voice that the owner cannot use.
        """
        owner = checked_owner(owner)
        with self._database.write() as session:
            if not is_built_in_voice(voice_id):
                voice_id = voices.record(session=session, voice_id=voice_id, owner=owner).id
            change = favourites.add if marked else favourites.remove
            change(session=session, voice_id=voice_id, owner=owner)
