"""The takes being spoken, so that Stop can reach its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Cancellable(Protocol):
    """What of a speech is needed here."""

    def cancel(self) -> None:
        """Stop within one frame, from any thread."""


class Running:
    """Speeches by ticket: a random word that the page makes up for each take and tells nobody else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._speeches: dict[str, Cancellable | None] = {}
        self._stopped: set[str] = set()

    @contextmanager
    def ticket(self, ticket: str) -> Iterator[None]:
        """While this lasts, `stop` reaches the take, also before its speech has begun."""
        with self._lock:
            self._speeches[ticket] = None
        try:
            yield
        finally:
            with self._lock:
                self._speeches.pop(ticket, None)
                self._stopped.discard(ticket)

    def began(self, ticket: str, speech: Cancellable) -> None:
        with self._lock:
            self._speeches[ticket] = speech
            stopped = ticket in self._stopped
        if stopped:
            speech.cancel()

    def stop(self, ticket: str) -> None:
        """Cancels the take of this ticket; a ticket that is not running is nothing to stop."""
        with self._lock:
            if ticket not in self._speeches:
                return
            self._stopped.add(ticket)
            speech = self._speeches[ticket]
        if speech is not None:
            speech.cancel()
