"""Places in the engine that scripts may take, first come, first served, so that none keeps the others waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Places:
    """So many of something, handed to those who ask in the order in which they ask."""

    def __init__(self, count: Callable[[], int]) -> None:
        """count: how many there are now; always at least one."""
        self._count = count
        self._held = 0
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Waits for a place, and holds it while this lasts."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.wait_for(lambda: self._held < self._count() and self._queue[0] is ticket)
            self._queue.popleft()
            self._held += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._held -= 1
                self._changed.notify_all()
