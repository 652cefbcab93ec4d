"""Takes being generated, registered by ticket: they can be stopped and report their place in the queue."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine.errors import InvalidInput

if TYPE_CHECKING:
    from studio.engines.measured_speech import MeasuredSpeech

EARLY = 1_000  # tickets to remember that were stopped while unknown
TakeStop = Literal["cancelled", "disconnected", "unheard"]
"""Why a take is stopped: by the listener; because the listener is gone; by a page that has given it up before it heard
any of it, so that it is not stored."""


@dataclass(eq=False)
class RunningTake:
    """A take being generated. stopped: why it was first stopped, or "unheard"; None if it was not."""

    session: str
    speech: MeasuredSpeech | None = None
    stopped: TakeStop | None = None


class RunningTakes:
    """Running takes by ticket: a random string that the client creates for each take and keeps secret."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._takes: dict[str, RunningTake] = {}
        self._early = deque[str](maxlen=EARLY)  # a stop can overtake the request for its take

    @contextmanager
    def register(self, ticket: str, session: str = "") -> Iterator[RunningTake]:
        """Register a take for the duration of the block; `stop` reaches it even before its speech is attached.

        session: of the client that requests the take. Raises InvalidInput for a ticket that is in use.
        """
        with self._lock:
            if ticket in self._takes:
                raise InvalidInput("take.running")
            take = self._takes[ticket] = RunningTake(session)
            if ticket in self._early:
                self._early.remove(ticket)
                take.stopped = "cancelled"
        try:
            yield take
        finally:
            with self._lock:
                del self._takes[ticket]

    def attach(self, ticket: str, speech: MeasuredSpeech) -> None:
        """Attach the speech of a registered take. It is cancelled at once if the take was stopped meanwhile."""
        with self._lock:
            take = self._takes[ticket]
            take.speech = speech
        if take.stopped:
            speech.cancel()

    def stop(self, ticket: str, reason: TakeStop = "cancelled") -> None:
        """Cancel the take of a ticket. The listener may stop a ticket before its take is registered."""
        with self._lock:
            take = self._takes.get(ticket)
            if take is None:
                if reason != "disconnected" and ticket not in self._early:
                    self._early.append(ticket)
                return
            take.stopped = reason if reason == "unheard" else take.stopped or reason
            speech = take.speech
        if speech is not None:
            speech.cancel()

    def queue_position(self, ticket: str) -> int | None:
        """Return the number of turns before a take's next one; None when it does not wait."""
        with self._lock:
            take = self._takes.get(ticket)
        return take.speech.queue_position if take and take.speech else None

    def session_queue_position(self, session: str) -> int | None:
        """Return the lowest queue position of a session's takes; None when none of them waits."""
        with self._lock:
            speeches = [take.speech for take in self._takes.values() if take.session == session]
        positions = [speech.queue_position for speech in speeches if speech is not None]
        return min((position for position in positions if position is not None), default=None)
