"""Everything that is kept, over one database: voices, what was spoken in them, and scripts."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from sqlalchemy.orm import Session

from storage.checks import checked_owner
from storage.database import Database
from storage.history import Clock, History, utc_now
from storage.library import LOCAL, VoiceLibrary
from storage.repositories import generations, owner_settings, scripts, usage, voices
from storage.repositories.usage import Holdings, StorageUse
from storage.script_library import ScriptLibrary


class Studio:
    """voices, history, scripts: the three parts. All methods may raise DatabaseUnavailable."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self.voices = VoiceLibrary(database, clock)
        self.history = History(database, clock)
        self.scripts = ScriptLibrary(database, clock)

    @classmethod
    def open(cls, url_or_path: str | Path, *, busy_timeout: float = 10.0, clock: Clock = utc_now) -> Studio:
        """Open or make the database, as `VoiceLibrary.open` does. clock: gives the time, aware."""
        return cls(Database.open(url_or_path, busy_timeout=busy_timeout), clock)

    def storage_use(self, *, owner: str = LOCAL) -> StorageUse:
        """What the owner's things take, in bytes."""
        with self._database.read() as session:
            return usage.storage_use(session=session, owner=checked_owner(owner))

    def holdings(self, *, owner: str = LOCAL) -> Holdings:
        """What there is of the owner, in numbers: what `forget` would delete."""
        with self._database.read() as session:
            return usage.holdings(session=session, owner=checked_owner(owner))

    def forget(self, owner: str) -> None:
        """Delete everything of an owner, at once or not at all; of a SQLite file the bytes are overwritten.

        When this raises, nothing is gone.
        """
        owner = checked_owner(owner)

        def remove(session: Session) -> None:
            scripts.remove_all(session=session, owner=owner)
            generations.remove_all(session=session, owner=owner)
            voices.remove_all(session=session, owner=owner)
            usage.remove_uses(session=session, owner=owner)
            owner_settings.remove(session=session, owner=owner)

        self._database.delete(remove)

    def close(self) -> None:
        """Let go of the database. Nothing can be used afterwards."""
        self._database.close()

    def __enter__(self) -> Studio:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
