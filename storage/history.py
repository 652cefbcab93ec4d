"""The history of takes. Every call is one transaction."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy.orm import Session

from engine.errors import InvalidInput
from engine.voice import check_field
from storage.database import Database
from storage.repositories import expiry_times, owner_deletions, owner_settings, takes
from storage.repositories.owner_settings import OwnerSettings
from storage.repositories.takes import HistoryPage, NewTake, SpokenVoice, TakeRecord
from storage.validation import LOCAL, MAX_SEARCH, Clock, checked_owner, is_id, utc_now

MAX_PAGE = 500  # takes


class _SwitchedOff(Exception):
    """The history was switched off while a take's sound was written."""


class History:
    """The takes of all owners. An owner has no access to the takes of another.

    All methods may raise DatabaseUnavailable, and TakeNotFound for an id that is not the owner's.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def add(self, take: NewTake, *, owner: str = LOCAL, deletion_token: str | None = None) -> TakeRecord | None:
        """Store a take in the history. If the owner keeps no history, store nothing and return None.

        deletion_token: from `Storage.deletion_token`. Raises OwnerDeleted.
        """
        if not self.settings(owner=owner).history:
            return None
        with (
            suppress(_SwitchedOff),
            self._database.storing([take.audio]) as (sound,),
            self._database.write() as session,
        ):
            owner_deletions.refuse_deleted(session=session, owner=owner, before=deletion_token)
            if not owner_settings.load(session=session, owner=owner).history:
                raise _SwitchedOff  # so that the sound is deleted from the store
            made = takes.create(session=session, take=take, owner=owner, now=self._clock(), listed=True, sound=sound)
            return takes.record(session=session, take_id=made, owner=owner)
        return None

    def page(
        self,
        *,
        owner: str = LOCAL,
        search: str = "",
        starred: bool = False,
        voice_id: str | None = None,
        limit: int = 50,
    ) -> HistoryPage:
        """Return the history, newest first, without sound: `limit` entries (at most 500).

        search: words that are all in the text or the voice's name, regardless of case and accents.
        starred: only starred entries. voice_id: only those of this voice. Raises InvalidInput.
        """
        check_field(search, "search", MAX_SEARCH)
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput("field.bad_page", most=MAX_PAGE)
        if voice_id is not None and not is_id(voice_id):
            return HistoryPage((), 0)
        with self._database.read() as session:
            return takes.page(
                session=session,
                owner=checked_owner(owner),
                search=search,
                starred=starred,
                voice_id=voice_id,
                limit=limit,
            )

    def voices(self, *, owner: str = LOCAL) -> list[SpokenVoice]:
        """Return the voices in the history, including deleted ones, most recently used first."""
        with self._database.read() as session:
            return takes.voices(session=session, owner=checked_owner(owner))

    def get(self, take_id: str, *, owner: str = LOCAL) -> TakeRecord:
        """Return a take without its sound."""
        with self._database.read() as session:
            return takes.record(session=session, take_id=take_id, owner=checked_owner(owner))

    def audio(self, take_id: str, *, owner: str = LOCAL) -> bytes:
        """Return the sound of a take, also of a script's: FLAC."""
        with self._database.read() as session:
            return takes.audio(session=session, take_id=take_id, owner=checked_owner(owner))

    def star(self, take_id: str, starred: bool = True, *, owner: str = LOCAL) -> TakeRecord:
        """Set or remove the star. Starred takes do not expire, and outlive their script."""
        with self._database.write() as session:
            return takes.star(session=session, take_id=take_id, owner=checked_owner(owner), starred=starred)

    def delete(self, take_id: str, *, owner: str = LOCAL) -> None:
        """Delete a take, also if it is a script's take; its bytes are overwritten in a SQLite file."""
        self._database.delete(
            lambda session: takes.remove(session=session, take_id=take_id, owner=checked_owner(owner))
        )

    def withdraw(self, take_id: str, *, owner: str = LOCAL) -> None:
        """Remove a take from the history. It is deleted as `delete` does, unless it is a script's take."""
        self._database.delete(
            lambda session: takes.withdraw(session=session, take_id=take_id, owner=checked_owner(owner))
        )

    def clear(self, *, owner: str = LOCAL) -> int:
        """Remove all takes, including starred ones, from the history as `withdraw` does; return their number."""
        return self._database.delete(lambda session: takes.clear(session=session, owner=checked_owner(owner)))

    def expire(self) -> int:
        """Delete takes older than their owner's retention, for all owners; return their number. Call it daily.

        Starred takes stay. Takes of scripts leave the history and stay with their scripts. If the last call was days
        ago, the clock may be wrong: what is old now is deleted by a call 20 hours after this one.
        """

        def expire(session: Session) -> int:
            trusted = expiry_times.next_time(session=session, now=self._clock())
            owner_deletions.expire(session=session, now=trusted)
            return takes.expire(session=session, now=trusted)

        return self._database.delete(expire)

    def settings(self, *, owner: str = LOCAL) -> OwnerSettings:
        """Return the owner's settings."""
        with self._database.read() as session:
            return owner_settings.load(session=session, owner=checked_owner(owner))

    def change_settings(
        self, *, history: bool | None = None, retention_days: int | None = None, owner: str = LOCAL
    ) -> OwnerSettings:
        """Change the given settings. Existing entries stay until they expire. Raises InvalidInput."""
        with self._database.write() as session:
            return owner_settings.change(
                session=session, owner=checked_owner(owner), history=history, retention_days=retention_days
            )
