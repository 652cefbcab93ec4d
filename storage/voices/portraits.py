"""Pictures of voices. Every call is one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from engine.voice import check_portrait
from storage.database import Database
from storage.repositories.voices import portraits, voices
from storage.validation import LOCAL, checked_owner


class Portraits:
    """Pictures of voices, WebP made by `studio.pictures.portraits`. All methods may raise DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, *, owner: str = LOCAL) -> dict[str, bytes]:
        """Return the pictures of the owner's voices by the voices' ids."""
        with self._database.read() as session:
            return portraits.of_owner(session=session, owner=checked_owner(owner))

    def some(self, voice_ids: Sequence[str], *, owner: str = LOCAL) -> dict[str, bytes]:
        """Return the pictures of those of the owner's voices that have one, by the voices' ids."""
        with self._database.read() as session:
            return portraits.of_owner(session=session, owner=checked_owner(owner), voice_ids=voice_ids)

    def put(self, voice_id: str, picture: bytes, *, owner: str = LOCAL) -> None:
        """Set a voice's picture; an empty one removes it. Raises VoiceNotFound, VoiceProtected, InvalidInput."""
        check_portrait(picture)
        with self._database.replace() as session:
            voices.refuse_shared(voices.lock_row(session=session, voice_id=voice_id, owner=checked_owner(owner)))
            portraits.put(session=session, voice_id=voice_id, picture=picture)
