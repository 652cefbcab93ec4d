"""Finished takes: in the owner's history, or in memory if the owner keeps no history."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.errors import RepriseError
from storage.errors import DatabaseUnavailable, OwnerDeleted, TakeNotFound
from storage.repositories.takes import NewTake, TakeRecord
from studio.tracebacks import describe_error

if TYPE_CHECKING:
    from storage.history import History
    from storage.storage import Storage

log = logging.getLogger(__name__)

MAX_TAKES = 50  # takes of one owner
MAX_BYTES = 256 << 20  # of all owners; about three hours
HOURS = 6.0


@dataclass(frozen=True)
class _HeldTake:
    """A take in memory. until: by the clock. deletion_token: as for `TakeStore.save`."""

    record: TakeRecord
    audio: bytes
    until: float
    deletion_token: str


class TemporaryTakes:
    """Takes in memory, limited in age, number per owner, and bytes; the oldest are dropped first.

    Methods raise TakeNotFound for a take that is missing or belongs to another owner.
    """

    def __init__(
        self,
        *,
        most: int = MAX_TAKES,
        most_bytes: int = MAX_BYTES,
        hours: float = HOURS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_bytes, self._seconds, self._clock = most, most_bytes, hours * 3600, clock
        self._lock = threading.Lock()
        self._takes: dict[str, _HeldTake] = {}  # by id, the oldest first

    def add(self, take: NewTake, *, owner: str, deletion_token: str = "") -> TakeRecord:
        """Add a take. Older takes are dropped if a limit is exceeded. deletion_token: as for `TakeStore.save`."""
        record = _record(take, owner)
        with self._lock:
            self._takes[record.id] = _HeldTake(record, take.audio, self._clock() + self._seconds, deletion_token)
            self._evict(owner)
        return record

    def get(self, take_id: str, *, owner: str) -> TakeRecord:
        """Return the record of a take."""
        return self._find(take_id, owner).record

    def audio(self, take_id: str, *, owner: str) -> bytes:
        """Return the audio of a take as FLAC."""
        return self._find(take_id, owner).audio

    def star(self, take_id: str, starred: bool, *, owner: str) -> TakeRecord:
        """Set or remove the star. It does not exempt the take from the limits."""
        held = self._find(take_id, owner)
        with self._lock:
            if take_id in self._takes:
                self._takes[take_id] = replace(held, record=replace(held.record, starred=starred))
        return self.get(take_id, owner=owner)

    def delete(self, take_id: str, *, owner: str) -> None:
        """Delete a take."""
        self._find(take_id, owner)
        with self._lock:
            self._takes.pop(take_id, None)

    def deletion_tokens(self) -> set[tuple[str, str]]:
        """Return the owners of the takes, with the owner's deletion token when the take began."""
        with self._lock:
            return {(held.record.owner, held.deletion_token) for held in self._takes.values()}

    def delete_owner(self, owner: str, deletion_token: str | None = None) -> None:
        """Delete all takes of an owner, or only those with this deletion token."""
        with self._lock:
            self._takes = {
                take_id: held
                for take_id, held in self._takes.items()
                if held.record.owner != owner or deletion_token not in (None, held.deletion_token)
            }

    def _find(self, take_id: str, owner: str) -> _HeldTake:
        with self._lock:
            held = self._takes.get(take_id)
        if held is None or held.record.owner != owner or held.until <= self._clock():
            raise TakeNotFound("take.expired")
        return held

    def _evict(self, owner: str) -> None:
        """Drop expired takes and those beyond the limits, after a take of this owner was added."""
        now = self._clock()
        expired = [take_id for take_id, held in self._takes.items() if held.until <= now]
        for take_id in expired:
            del self._takes[take_id]
        own = [take_id for take_id, held in self._takes.items() if held.record.owner == owner]
        for take_id in own[: -self._most]:
            del self._takes[take_id]
        while len(self._takes) > 1 and sum(len(held.audio) for held in self._takes.values()) > self._most_bytes:
            del self._takes[next(iter(self._takes))]


class TakeStore:
    """Takes in the history and in memory. `save` chooses the place; the other methods find a take in either."""

    def __init__(self, storage: Storage, temporary: TemporaryTakes | None = None) -> None:
        self._storage, self._temporary = storage, temporary or TemporaryTakes()

    def deletion_token(self, *, owner: str) -> str:
        """Return the owner's deletion token, which `save` needs, before a take begins. Raises DatabaseUnavailable."""
        return self._storage.deletion_token(owner=owner)

    def save(self, take: NewTake, *, owner: str, deletion_token: str) -> TakeRecord | None:
        """Save a take in the history, or in memory if the owner keeps no history or saving fails.

        deletion_token: read before the take began. Returns None if all data of the owner was deleted since then, in any
        process. The record's `listed` says whether it is in the history.
        """
        try:
            kept = self._storage.history.add(take, owner=owner, deletion_token=deletion_token)
        except OwnerDeleted:
            return None
        except RepriseError as error:
            log.warning("a take could not be kept in the history: %s", describe_error(error))
            kept = None
        return kept or self._hold(take, owner, deletion_token)

    def _hold(self, take: NewTake, owner: str, deletion_token: str) -> TakeRecord | None:
        held = self._temporary.add(take, owner=owner, deletion_token=deletion_token)
        with suppress(DatabaseUnavailable):  # then `drop_deleted` checks it later
            if self._storage.deleted_since(deletion_token, owner=owner):
                with suppress(TakeNotFound):
                    self._temporary.delete(held.id, owner=owner)
                return None
        return held

    def get(self, take_id: str, *, owner: str) -> TakeRecord:
        """Return the record of a take. Raises TakeNotFound, as do the following methods."""
        return self._place(take_id, owner).get(take_id, owner=owner)

    def audio(self, take_id: str, *, owner: str) -> bytes:
        """Return the audio of a take as FLAC."""
        return self._place(take_id, owner).audio(take_id, owner=owner)

    def star(self, take_id: str, starred: bool, *, owner: str) -> TakeRecord:
        """Set or remove the star."""
        return self._place(take_id, owner).star(take_id, starred, owner=owner)

    def delete(self, take_id: str, *, owner: str) -> None:
        """Delete a take."""
        self._place(take_id, owner).delete(take_id, owner=owner)

    def delete_owner(self, owner: str) -> None:
        """Delete an owner's takes in memory, after all their data was deleted from storage."""
        self._temporary.delete_owner(owner)

    def drop_deleted(self) -> None:
        """Delete takes in memory whose owner's data was deleted by another process. Call it about every minute."""
        for owner, deletion_token in self._temporary.deletion_tokens():
            if self._storage.deleted_since(deletion_token, owner=owner):
                self._temporary.delete_owner(owner, deletion_token)

    def _place(self, take_id: str, owner: str) -> TemporaryTakes | History:
        """Return where a take is: in memory, else in the history."""
        with suppress(TakeNotFound):
            self._temporary.get(take_id, owner=owner)
            return self._temporary
        return self._storage.history


def _record(take: NewTake, owner: str) -> TakeRecord:
    return TakeRecord(
        id=take.id,
        owner=owner,
        created=datetime.now(UTC),
        listed=False,
        starred=False,
        text=take.text,
        voice_id=take.voice_id,
        voice_name=take.voice_name,
        seed=take.seed,
        settings=take.settings,
        model=take.model,
        duration=take.duration,
        real_time_factor=take.real_time_factor,
        first_audio=take.first_audio,
        stop_reason=take.stop_reason,
        size=len(take.audio),
        script_id=None,
        words=tuple(take.words),
    )
