"""The takes being spoken, so that Stop can reach its own, and a page can be told its place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from engine.errors import InvalidInput

TWICE = "This take is being spoken already. Reload the page."


class Speaking(Protocol):
    """What of a speech is needed here."""

    @property
    def place(self) -> int | None:
        """How many turns are before its next one; None when it waits for none."""

    def cancel(self) -> None:
        """Stop within one frame, from any thread."""


@dataclass(eq=False)
class _Take:
    session: str
    speech: Speaking | None = None
    stopped: bool = False


class Running:
    """Speeches by ticket: a random word that the page makes up for each take and tells nobody else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._takes: dict[str, _Take] = {}

    @contextmanager
    def ticket(self, ticket: str, session: str = "") -> Iterator[None]:
        """While this lasts, `stop` reaches the take, also before its speech has begun.

        session: Gradio's, of the page. Raises InvalidInput for a ticket that is in use.
        """
        with self._lock:
            if ticket in self._takes:
                raise InvalidInput(TWICE)
            self._takes[ticket] = _Take(session)
        try:
            yield
        finally:
            with self._lock:
                del self._takes[ticket]

    def began(self, ticket: str, speech: Speaking) -> None:
        with self._lock:
            take = self._takes[ticket]
            take.speech = speech
        if take.stopped:
            speech.cancel()

    def stop(self, ticket: str) -> None:
        """Cancels the take of this ticket; a ticket that is not running is nothing to stop."""
        with self._lock:
            take = self._takes.get(ticket)
            if take is None:
                return
            take.stopped = True
            speech = take.speech
        if speech is not None:
            speech.cancel()

    def place(self, ticket: str) -> int | None:
        """How many turns are before a take's next one; None when it does not wait."""
        with self._lock:
            take = self._takes.get(ticket)
        return take.speech.place if take and take.speech else None

    def place_of(self, session: str) -> int | None:
        """The same, of the take of a page that is next."""
        with self._lock:
            speeches = [take.speech for take in self._takes.values() if take.session == session]
        places = [speech.place for speech in speeches if speech is not None]
        return min((place for place in places if place is not None), default=None)
