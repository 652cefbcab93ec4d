"""All persistent data in one database."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from sqlalchemy.orm import Session

from storage.api_keys import ApiKeys
from storage.copying import CopyProgress, TableContent, copy_library
from storage.database import Database
from storage.history import History
from storage.pronunciations import Pronunciations
from storage.repositories import api_keys, owner_deletions, owner_settings, pronunciations, takes
from storage.repositories.scripts import scripts
from storage.repositories.voices import favourites, usage, voice_consents, voices
from storage.repositories.voices.usage import OwnerCounts, StorageUse
from storage.scripts.hearings import Hearings
from storage.scripts.script_library import ScriptLibrary
from storage.server_settings import ServerSettings
from storage.validation import LOCAL, Clock, checked_owner, utc_now
from storage.voices.favourites import Favourites
from storage.voices.library import VoiceLibrary
from storage.voices.portraits import Portraits
from storage.voices.uses import VoiceUses
from storage.voices.voice_consents import VoiceConsents


class Storage:
    """The libraries and settings in one database.

    All methods may raise DatabaseUnavailable.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self.voices = VoiceLibrary(database, clock)
        self.consents = VoiceConsents(database, clock)
        self.favourites = Favourites(database)
        self.portraits = Portraits(database)
        self.pronunciations = Pronunciations(database)
        self.uses = VoiceUses(database)
        self.history = History(database, clock)
        self.scripts = ScriptLibrary(database, clock)
        self.hearings = Hearings(database)
        self.keys = ApiKeys(database, clock)
        self.settings = ServerSettings(database)

    @classmethod
    def open(
        cls,
        url_or_path: str | Path,
        *,
        busy_timeout: float = 10.0,
        audio_store: str | Path | None = None,
        clock: Clock = utc_now,
    ) -> Storage:
        """Open or create a SQLite file (private to the user) or a database at a PostgreSQL URL, and migrate it.

        busy_timeout: seconds to wait while another process writes to the same SQLite file. audio_store: a folder, or
        a URL such as `s3://bucket/folder`, for clips and takes outside the database; every process has to name it.
        clock: returns an aware time. Raises DatabaseUnavailable when it cannot be read and written, or a newer
        version wrote it.
        """
        return cls(Database.open(url_or_path, busy_timeout=busy_timeout, audio_store=audio_store), clock)

    def check(self) -> None:
        """Check that the library can be read, in milliseconds; damage deeper in a SQLite file is not found."""
        self._database.check()

    def check_store(self) -> None:
        """Check that the store of sounds, if there is one, can be written."""
        self._database.check_store()

    def copy_to(self, target: Storage, progress: CopyProgress | None = None) -> dict[str, TableContent]:
        """Copy everything to another, empty storage, as `copy_library` does."""
        return copy_library(self._database, target._database, progress)

    def storage_use(self, *, owner: str = LOCAL) -> StorageUse:
        """Return the bytes of the owner's data."""
        with self._database.read() as session:
            return usage.storage_use(session=session, owner=checked_owner(owner))

    def owners(self) -> list[str]:
        """Return all owners of any data, in alphabetical order."""
        with self._database.read() as session:
            return usage.owners(session=session)

    def owner_counts(self, *, owner: str = LOCAL) -> OwnerCounts:
        """Return counts of the owner's data, which `delete_owner` would delete."""
        with self._database.read() as session:
            return usage.owner_counts(session=session, owner=checked_owner(owner))

    def all_counts(self) -> dict[str, OwnerCounts]:
        """Return what `owner_counts` returns for all owners of any data, in alphabetical order."""
        with self._database.read() as session:
            return usage.all_counts(session=session)

    def deletion_token(self, *, owner: str = LOCAL) -> str:
        """Return a token that changes when all data of the owner is deleted.

        Read it before a take, a voice, a consent or a script is made, and pass it to the method that stores the result.
        That raises OwnerDeleted, and stores nothing, if the token has changed.
        """
        with self._database.read() as session:
            return owner_deletions.deletion_token(session=session, owner=checked_owner(owner))

    def deleted_since(self, deletion_token: str, *, owner: str = LOCAL) -> bool:
        """Whether all data of the owner was deleted since this token was read."""
        return owner_deletions.has_changed(self.deletion_token(owner=owner), deletion_token)

    def delete_owner(self, owner: str) -> None:
        """Delete everything of an owner in one transaction; in a SQLite file the bytes are overwritten.

        What is in progress in any process, such as a take, is not stored (`deletion_token`). If this raises, nothing
        has been deleted.
        """
        owner = checked_owner(owner)

        def remove(session: Session) -> None:
            owner_deletions.add(session=session, owner=owner, now=self._clock())
            scripts.lock_rows(session=session, owner=owner)
            # Before the scripts: the deletion of a single take, too, locks the take, then its place on a card.
            takes.remove_all(session=session, owner=owner)
            scripts.remove_all(session=session, owner=owner)
            voices.remove_all(session=session, owner=owner)
            voice_consents.remove_all(session=session, owner=owner)
            favourites.remove_all(session=session, owner=owner)
            pronunciations.remove_all(session=session, owner=owner)
            usage.remove_uses(session=session, owner=owner)
            owner_settings.remove(session=session, owner=owner)
            api_keys.remove_all(session=session, owner=owner)

        self._database.delete(remove)

    def close(self) -> None:
        """Close the database, once the uses of voices are counted."""
        self.uses.wait()
        self._database.close()

    def __enter__(self) -> Storage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
