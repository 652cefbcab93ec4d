"""Uses of voices, counted in the background."""

from __future__ import annotations

import logging
import threading

from engine.errors import RepriseError
from storage.database import Database
from storage.errors import OwnerDeleted
from storage.repositories import owner_deletions, owner_settings
from storage.repositories.voices import usage
from storage.repositories.voices.usage import VoiceUse
from storage.validation import LOCAL, checked_owner, is_id

log = logging.getLogger(__name__)

_Key = tuple[str, str, str]  # owner, voice id, deletion token


class VoiceUses:
    """Counts of the uses of saved voices by owner."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._uses: dict[_Key, VoiceUse] = {}  # to be written
        self._thread = threading.Thread()  # the last one that wrote
        self._writing = False

    def add(self, voice_id: str, seconds: float, *, owner: str, deletion_token: str) -> None:
        """Count a use of a voice that is not stored as a take, unless the owner keeps no history.

        Speech must neither wait for the database nor fail with it: a thread writes, together what has come meanwhile,
        and what cannot be written is logged. deletion_token: from `Storage.deletion_token`.
        """
        if not is_id(voice_id):
            return
        key = (checked_owner(owner), voice_id, deletion_token)
        with self._lock:
            before = self._uses.get(key, VoiceUse(0, 0.0))
            self._uses[key] = VoiceUse(before.times + 1, before.seconds + seconds)
            if not self._writing:
                thread = threading.Thread(target=self._write_all, name="reprise-uses", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # no more threads; the next use tries again
                    log.warning("the uses of voices could not be counted: %s", error)
                else:
                    self._thread, self._writing = thread, True

    def wait(self) -> None:
        """Wait until everything so far is written."""
        with self._lock:
            writing, thread = self._writing, self._thread
        if writing:
            thread.join()

    def all(self, *, owner: str = LOCAL) -> dict[str, VoiceUse]:
        """Return how often and how long the owner used each voice, by id. Raises DatabaseUnavailable."""
        with self._database.read() as session:
            return usage.voice_uses(session=session, owner=checked_owner(owner))

    def _write_all(self) -> None:
        while uses := self._take():
            for key, use in uses.items():
                try:
                    self._write(*key, use)
                except OwnerDeleted:
                    pass
                except RepriseError as error:
                    log.warning("the use of a voice could not be counted: %s", error)
                except Exception:  # the thread goes on, since it is not begun again
                    log.exception("the use of a voice could not be counted")

    def _take(self) -> dict[_Key, VoiceUse]:
        """Return and forget the uses to be written; without any, the thread is over."""
        with self._lock:
            uses, self._uses = self._uses, {}
            self._writing = bool(uses)
        return uses

    def _write(self, owner: str, voice_id: str, deletion_token: str, use: VoiceUse) -> None:
        with self._database.write() as session:
            owner_deletions.refuse_deleted(session=session, owner=owner, before=deletion_token)
            if owner_settings.load(session=session, owner=owner).history:
                usage.count_use(session=session, owner=owner, voice_id=voice_id, use=use)
