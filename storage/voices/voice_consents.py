"""Recorded consents to cloning. Every call is one transaction."""

from __future__ import annotations

from engine.errors import InvalidInput, InvalidName
from engine.voice import MAX_LANGUAGE, MAX_NAME, check_field, clean_name
from storage.database import Database
from storage.repositories import owner_deletions
from storage.repositories.voices import voice_consents
from storage.repositories.voices.voice_consents import ConsentRecord
from storage.validation import LOCAL, Clock, checked_owner, utc_now

ConsentRecords = list[ConsentRecord]  # defined here because `list` is a method of the class


class VoiceConsents:
    """Recorded consents to voice cloning, by owner.

    A voice keeps the words and time of its consent when the recording is deleted. All methods may raise
    DatabaseUnavailable, and ConsentNotFound for an id that is not the owner's.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def add(
        self, name: str, language: str, recording: bytes, *, owner: str = LOCAL, deletion_token: str | None = None
    ) -> ConsentRecord:
        """Store a recording, the bytes of a file. Names need not be unique.

        deletion_token: from `Storage.deletion_token`. Raises InvalidInput, OwnerDeleted.
        """
        check_field(language, "language", MAX_LANGUAGE)
        cleaned = _consent_name(name)
        with self._database.storing([recording]) as (stored,), self._database.write() as session:
            owner_deletions.refuse_deleted(session=session, owner=owner, before=deletion_token)
            return voice_consents.create(
                session=session,
                name=cleaned,
                language=language,
                recording=stored,
                owner=checked_owner(owner),
                now=self._clock(),
            )

    def list(self, *, owner: str = LOCAL, after: str | None = None) -> ConsentRecords:
        """Return the owner's consents, newest first. after: an id; return only those that follow it."""
        with self._database.read() as session:
            return voice_consents.records(session=session, owner=checked_owner(owner), after=after)

    def get(self, consent_id: str, *, owner: str = LOCAL) -> ConsentRecord:
        """Return a consent without its recording."""
        with self._database.read() as session:
            return voice_consents.record(session=session, consent_id=consent_id, owner=checked_owner(owner))

    def recording(self, consent_id: str, *, owner: str = LOCAL) -> bytes:
        """Return the recording of a consent, as it was uploaded."""
        with self._database.read() as session:
            return voice_consents.recording(session=session, consent_id=consent_id, owner=checked_owner(owner))

    def rename(self, consent_id: str, name: str, *, owner: str = LOCAL) -> ConsentRecord:
        """Change a consent's label. Raises InvalidInput."""
        cleaned = _consent_name(name)
        with self._database.replace() as session:
            return voice_consents.rename(
                session=session, consent_id=consent_id, name=cleaned, owner=checked_owner(owner)
            )

    def delete(self, consent_id: str, *, owner: str = LOCAL) -> None:
        """Delete a consent; the bytes of its recording are overwritten in a SQLite file."""
        self._database.delete(
            lambda session: voice_consents.remove(session=session, consent_id=consent_id, owner=checked_owner(owner))
        )


def _consent_name(name: str) -> str:
    """Return a consent's name, cleaned like that of a voice. Raises InvalidInput."""
    try:
        return clean_name(name)
    except InvalidName as error:
        raise InvalidInput(
            f"A consent needs a name of at most {MAX_NAME} characters, without control characters."
        ) from error


__all__ = ["ConsentRecord", "VoiceConsents"]
