"""Places in the engine that scripts may take, handed out round-robin between owners."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Places:
    """So many of something. A free one goes to the owner who holds the fewest, of several to who has waited longest."""

    def __init__(self, count: Callable[[], int]) -> None:
        """count: how many there are now; always at least one."""
        self._count = count
        self._held: Counter[str] = Counter()
        self._queue: list[tuple[str, object]] = []  # owners who wait, longest first
        self._changed = threading.Condition()

    @contextmanager
    def place(self, owner: str = "") -> Iterator[None]:
        """Waits for a place, and holds it while this lasts."""
        asked = owner, object()
        with self._changed:
            self._queue.append(asked)
            self._changed.wait_for(lambda: self._held.total() < self._count() and self._next() is asked)
            self._queue.remove(asked)
            self._held[owner] += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._held[owner] -= 1
                if not self._held[owner]:
                    del self._held[owner]
                self._changed.notify_all()

    def _next(self) -> tuple[str, object]:
        return min(self._queue, key=lambda asked: self._held[asked[0]])
