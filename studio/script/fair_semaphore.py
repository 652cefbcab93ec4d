"""Slots of the engine for scripts, shared fairly between owners."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class FairSemaphore:
    """A variable number of slots. A free slot goes to the owner with the fewest, among equals to the longest wait."""

    def __init__(self, count: Callable[[], int]) -> None:
        """count: returns the current number of slots, at least one."""
        self._count = count
        self._held: Counter[str] = Counter()
        self._queue: list[tuple[str, object]] = []  # waiting owners, longest wait first
        self._changed = threading.Condition()

    @contextmanager
    def slot(self, owner: str = "") -> Iterator[None]:
        """Wait for a slot and hold it within the block. Raises what `count` raises."""
        waiter = owner, object()
        with self._changed:
            self._queue.append(waiter)
            try:
                self._changed.wait_for(lambda: self._held.total() < self._count() and self._next() is waiter)
                self._held[owner] += 1
            finally:
                self._queue.remove(waiter)
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
        return min(self._queue, key=lambda waiter: self._held[waiter[0]])
