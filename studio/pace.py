"""How fast takes are spoken, and how long one has to wait for a turn: arithmetic over what runs and what ran last."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

CHARACTERS_PER_SECOND = 14.0  # of English read aloud
RECENT = 20  # takes
# A take that is longer than its text let expect is taken to have this share of it still to come.
_OVERDUE = 0.1


@dataclass(eq=False)
class Run:
    """A take on its way. began: on the clock. expected, spoken: seconds of sound."""

    began: float
    expected: float
    spoken: float = 0.0


class Pace:
    """Knows no text and nobody's name. Any number of threads may tell it and ask it at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()  # finalizers end runs too, and come wherever they like
        self._runs: set[Run] = set()
        self._factors: deque[float] = deque(maxlen=RECENT)  # seconds of work for a second of sound

    def begin(self, characters: int) -> Run:
        """A take of a text begins; to be ended by `end`."""
        run = Run(self._clock(), max(1.0, characters / CHARACTERS_PER_SECOND))
        with self._lock:
            self._runs.add(run)
        return run

    def end(self, run: Run) -> None:
        """A take is over, however it went. To end it again does nothing."""
        with self._lock:
            if run in self._runs and run.spoken:
                self._factors.append((self._clock() - run.began) / run.spoken)
            self._runs.discard(run)

    def forget(self) -> None:
        """Another model speaks from now on: what is known of this one says nothing about it."""
        with self._lock:
            self._factors.clear()

    @property
    def factor(self) -> float | None:
        """The usual real-time factor of the last takes: seconds of work for a second of sound. None before any."""
        with self._lock:
            return median(self._factors) if self._factors else None

    def wait(self, slots: int, before: int | None = None) -> float | None:
        """Seconds until a take has one of `slots` turns: one that waits behind `before` others, or one that comes now.

        None while nothing was spoken from which it could be told.
        """
        with self._lock:
            runs = sorted(self._runs, key=lambda run: (not run.spoken, run.began))
        if before is not None:
            runs = runs[: slots + before]
        if len(runs) < slots:
            return 0.0
        left = [self._left(run) for run in runs]
        known = [each for each in left if each is not None]
        if len(known) < len(left):
            return None
        free = known[:slots]
        heapq.heapify(free)
        for each in known[slots:]:
            heapq.heapreplace(free, free[0] + each)
        return free[0]

    def _left(self, run: Run) -> float | None:
        """Seconds of work that a take still needs."""
        factor = (self._clock() - run.began) / run.spoken if run.spoken else self.factor
        return None if factor is None else factor * max(run.expected - run.spoken, _OVERDUE * run.expected)
