"""What was spoken, wherever it is kept: in the owner's history, or, where none is wanted, on a shelf that forgets."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.errors import GenerationNotFound, RepriseError
from storage.repositories.generations import GenerationRecord, Spoken
from storage.validation import new_id
from studio.traces import reason

if TYPE_CHECKING:
    from storage.history import History

log = logging.getLogger(__name__)

MOST = 50  # takes of one owner
MOST_BYTES = 256 << 20  # of all owners: about three hours
HOURS = 6.0
_GONE = "This take is no longer on the server."


@dataclass(frozen=True)
class _Held:
    record: GenerationRecord
    audio: bytes
    until: float


class TakeShelf:
    """Takes in memory alone: for hours, so many of an owner and so many bytes in all; the oldest go first.

    Methods that find nothing raise GenerationNotFound, also for what another owner has here.
    """

    def __init__(
        self,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        hours: float = HOURS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_bytes, self._seconds, self._clock = most, most_bytes, hours * 3600, clock
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}  # by id, the oldest first

    def put(self, spoken: Spoken, *, owner: str) -> GenerationRecord:
        """Hold a take; what has to go for it goes."""
        record = _record(spoken, owner)
        with self._lock:
            self._held[record.id] = _Held(record, spoken.audio, self._clock() + self._seconds)
            self._tidy(owner)
        return record

    def get(self, take_id: str, *, owner: str) -> GenerationRecord:
        """What is known of a take."""
        return self._find(take_id, owner).record

    def audio(self, take_id: str, *, owner: str) -> bytes:
        """Its sound: FLAC."""
        return self._find(take_id, owner).audio

    def star(self, take_id: str, starred: bool, *, owner: str) -> GenerationRecord:
        """Set or take away the star, which here is a mark and keeps nothing."""
        held = self._find(take_id, owner)
        with self._lock:
            if take_id in self._held:
                self._held[take_id] = replace(held, record=replace(held.record, starred=starred))
        return self.get(take_id, owner=owner)

    def delete(self, take_id: str, *, owner: str) -> None:
        """Let go of a take."""
        self._find(take_id, owner)
        with self._lock:
            self._held.pop(take_id, None)

    def forget(self, owner: str) -> None:
        """Let go of all takes of an owner."""
        with self._lock:
            self._held = {take_id: held for take_id, held in self._held.items() if held.record.owner != owner}

    def _find(self, take_id: str, owner: str) -> _Held:
        with self._lock:
            held = self._held.get(take_id)
        if held is None or held.record.owner != owner or held.until <= self._clock():
            raise GenerationNotFound(_GONE)
        return held

    def _tidy(self, owner: str) -> None:
        """After a take of this owner came."""
        now = self._clock()
        expired = [take_id for take_id, held in self._held.items() if held.until <= now]
        for take_id in expired:
            del self._held[take_id]
        own = [take_id for take_id, held in self._held.items() if held.record.owner == owner]
        for take_id in own[: -self._most]:
            del self._held[take_id]
        while len(self._held) > 1 and sum(len(held.audio) for held in self._held.values()) > self._most_bytes:
            del self._held[next(iter(self._held))]


class Takes:
    """History and shelf as one. `keep` decides; whoever has an id need not know where its take is."""

    def __init__(
        self, history: History, shelf: TakeShelf | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._history, self._clock = history, clock
        self._shelf = shelf or TakeShelf()
        self._forgotten: dict[str, float] = {}  # by owner: when

    def begin(self) -> float:
        """A mark for `keep`: the take began now."""
        return self._clock()

    def keep(self, spoken: Spoken, *, owner: str, begun: float) -> GenerationRecord | None:
        """Keep a take: in the history, or on the shelf where the owner wants none or the history fails.

        None where the owner has had everything forgotten since it began. `listed` of what comes back says whether it
        is in the history.
        """
        if self._unwanted(owner, begun):
            return None
        try:
            kept = self._history.add(spoken, owner=owner)
        except RepriseError as error:
            log.warning("a take could not be kept in the history: %s", reason(error))
            kept = None
        kept = kept or self._shelf.put(spoken, owner=owner)
        if self._unwanted(owner, begun):  # in this very moment
            with suppress(GenerationNotFound):
                self.delete(kept.id, owner=owner)
            return None
        return kept

    def _unwanted(self, owner: str, begun: float) -> bool:
        return self._forgotten.get(owner, -math.inf) >= begun

    def get(self, take_id: str, *, owner: str) -> GenerationRecord:
        """What is known of a take. Raises GenerationNotFound, as all that follow."""
        try:
            return self._shelf.get(take_id, owner=owner)
        except GenerationNotFound:
            return self._history.get(take_id, owner=owner)

    def audio(self, take_id: str, *, owner: str) -> bytes:
        """Its sound: FLAC."""
        try:
            return self._shelf.audio(take_id, owner=owner)
        except GenerationNotFound:
            return self._history.audio(take_id, owner=owner)

    def star(self, take_id: str, starred: bool, *, owner: str) -> GenerationRecord:
        """Set or take away the star."""
        try:
            return self._shelf.star(take_id, starred, owner=owner)
        except GenerationNotFound:
            return self._history.star(take_id, starred, owner=owner)

    def delete(self, take_id: str, *, owner: str) -> None:
        """Delete a take, wherever it is."""
        try:
            self._shelf.delete(take_id, owner=owner)
        except GenerationNotFound:
            self._history.delete(take_id, owner=owner)

    @contextmanager
    def forgetting(self, owner: str) -> Iterator[None]:
        """While the database deletes everything of an owner: nothing of what is being spoken is kept.

        Then what the owner has outside of the database goes too; it stays when the database raises.
        """
        before = self._forgotten.get(owner, -math.inf)
        self._forgotten[owner] = self._clock()
        try:
            yield
        except BaseException:
            self._forgotten[owner] = before
            raise
        self._shelf.forget(owner)


def _record(spoken: Spoken, owner: str) -> GenerationRecord:
    return GenerationRecord(
        id=new_id(),
        owner=owner,
        created=datetime.now(UTC),
        listed=False,
        starred=False,
        text=spoken.text,
        voice_id=spoken.voice_id,
        voice_name=spoken.voice_name,
        seed=spoken.seed,
        settings=spoken.settings,
        model=spoken.model,
        duration=spoken.duration,
        real_time_factor=spoken.real_time_factor,
        first_audio=spoken.first_audio,
        stop_reason=spoken.stop_reason,
        size=len(spoken.audio),
        script_id=None,
    )
