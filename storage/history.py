"""The history as the rest of the product sees it: every call one transaction, safe from any thread."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from engine.errors import InvalidInput
from engine.voice import check_text
from storage.checks import checked_owner, is_id
from storage.database import Database
from storage.library import LOCAL, MAX_SEARCH
from storage.repositories import generations, owner_settings, usage
from storage.repositories.generations import GenerationRecord, HistoryPage, Spoken, SpokenVoice
from storage.repositories.owner_settings import OwnerSettings
from storage.repositories.usage import VoiceUse

MAX_PAGE = 500  # generations

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


class History:
    """What was spoken, each owner's apart: nobody sees, finds or deletes what another owner had spoken.

    All methods may raise DatabaseUnavailable, and GenerationNotFound for an id that is not one of the owner's.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def add(self, spoken: Spoken, *, owner: str = LOCAL) -> GenerationRecord | None:
        """Keep what was spoken. None, and nothing of it is stored, when the owner wants no history."""
        with self._database.write() as session:
            if not owner_settings.load(session=session, owner=checked_owner(owner)).history:
                return None
            made = generations.create(session=session, spoken=spoken, owner=owner, now=self._clock(), listed=True)
            return generations.record(session=session, generation_id=made, owner=owner)

    def page(
        self,
        *,
        owner: str = LOCAL,
        search: str = "",
        starred: bool = False,
        voice_id: str | None = None,
        skip: int = 0,
        limit: int = 50,
    ) -> HistoryPage:
        """The history, newest first, without sound: `limit` entries (at most 500) after the first `skip`.

        search: words that all are in the text or the voice's name, in any case, with or without accents.
        starred: only those. voice_id: only in this voice. Raises InvalidInput.
        """
        check_text(search, "search", MAX_SEARCH)
        if skip < 0 or not 1 <= limit <= MAX_PAGE:
            raise InvalidInput(f"A page of the history has 1 to {MAX_PAGE} entries, and none before the first.")
        if voice_id is not None and not is_id(voice_id):
            return HistoryPage((), 0)
        with self._database.read() as session:
            return generations.page(
                session=session,
                owner=checked_owner(owner),
                search=search,
                starred=starred,
                voice_id=voice_id,
                skip=skip,
                limit=limit,
            )

    def voices(self, *, owner: str = LOCAL) -> list[SpokenVoice]:
        """The voices that are heard in the history, also those that are deleted by now; the one heard last first."""
        with self._database.read() as session:
            return generations.voices(session=session, owner=checked_owner(owner))

    def get(self, generation_id: str, *, owner: str = LOCAL) -> GenerationRecord:
        """What is known of a generation, without its sound."""
        with self._database.read() as session:
            return generations.record(session=session, generation_id=generation_id, owner=checked_owner(owner))

    def audio(self, generation_id: str, *, owner: str = LOCAL) -> bytes:
        """The sound of a generation, or of a script's take: FLAC."""
        with self._database.read() as session:
            return generations.audio(session=session, generation_id=generation_id, owner=checked_owner(owner))

    def star(self, generation_id: str, starred: bool = True, *, owner: str = LOCAL) -> GenerationRecord:
        """Set or take away the star: what has one is never deleted for its age, nor with its script."""
        with self._database.write() as session:
            return generations.star(
                session=session, generation_id=generation_id, owner=checked_owner(owner), starred=starred
            )

    def delete(self, generation_id: str, *, owner: str = LOCAL) -> None:
        """Delete one, also if it is a script's take: its card has none then.

        Of a SQLite file its bytes are overwritten.
        """
        self._database.delete(
            lambda session: generations.remove(session=session, generation_id=generation_id, owner=checked_owner(owner))
        )

    def withdraw(self, generation_id: str, *, owner: str = LOCAL) -> None:
        """Take one out of the history: it is deleted as `delete` does, unless a script has it."""
        self._database.delete(
            lambda session: generations.withdraw(
                session=session, generation_id=generation_id, owner=checked_owner(owner)
            )
        )

    def clear(self, *, owner: str = LOCAL) -> int:
        """Take all out of the history, starred ones too; returns how many there were. Scripts keep their takes."""
        return self._database.delete(lambda session: generations.clear(session=session, owner=checked_owner(owner)))

    def expire(self) -> int:
        """Delete what is older than its owner wants, for all owners; returns how many. To be called once a day.

        What is starred stays, and takes stay as long as their scripts.
        """
        now = self._clock()
        return self._database.delete(lambda session: generations.expire(session=session, now=now))

    def settings(self, *, owner: str = LOCAL) -> OwnerSettings:
        """What the owner wants kept."""
        with self._database.read() as session:
            return owner_settings.load(session=session, owner=checked_owner(owner))

    def change_settings(
        self, *, history: bool | None = None, retention_days: int | None = None, owner: str = LOCAL
    ) -> OwnerSettings:
        """Change what is given. What is there already stays until it expires or is deleted. Raises InvalidInput."""
        with self._database.write() as session:
            return owner_settings.change(
                session=session, owner=checked_owner(owner), history=history, retention_days=retention_days
            )

    def voice_uses(self, *, owner: str = LOCAL) -> dict[str, VoiceUse]:
        """How often and how long the owner spoke in which voice, by voice id; what was not kept is not counted."""
        with self._database.read() as session:
            return usage.voice_uses(session=session, owner=checked_owner(owner))
