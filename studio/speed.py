"""Estimates of generation speed and waiting time from running and recent takes."""

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
# Share of the expected audio that is assumed to be left in a take that is longer than expected.
_OVERDUE = 0.1


@dataclass(eq=False)
class TakeTiming:
    """A running take. started: time on the clock. expected, spoken: seconds of audio."""

    started: float
    expected: float
    spoken: float = 0.0


class SpeedEstimator:
    """Estimates speed from the timings of takes; it stores neither texts nor names. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()  # reentrant, since a finalizer can call `end` at any point
        self._timings: set[TakeTiming] = set()
        self._real_time_factors: deque[float] = deque(maxlen=RECENT)  # seconds of work per second of audio

    def begin(self, characters: int) -> TakeTiming:
        """Record the start of a take; `end` records its end."""
        timing = TakeTiming(self._clock(), max(1.0, characters / CHARACTERS_PER_SECOND))
        with self._lock:
            self._timings.add(timing)
        return timing

    def end(self, timing: TakeTiming) -> None:
        """Record the end of a take, whatever its outcome. Idempotent."""
        with self._lock:
            if timing in self._timings and timing.spoken:
                self._real_time_factors.append((self._clock() - timing.started) / timing.spoken)
            self._timings.discard(timing)

    def reset(self) -> None:
        """Drop recent takes, after another model was loaded."""
        with self._lock:
            self._real_time_factors.clear()

    @property
    def real_time_factor(self) -> float | None:
        """Median of recent takes: seconds of work per second of audio. None before any."""
        with self._lock:
            return median(self._real_time_factors) if self._real_time_factors else None

    def wait_seconds(self, slots: int, before: int | None = None) -> float | None:
        """Estimate the seconds until a take gets one of `slots`; None before any audio was generated.

        before: number of waiting takes before it; None for a take that begins now.
        """
        with self._lock:
            timings = sorted(self._timings, key=lambda timing: (not timing.spoken, timing.started))
        if before is not None:
            timings = timings[: slots + before]
        if len(timings) < slots:
            return 0.0
        left = [self._work_left(timing) for timing in timings]
        known = [each for each in left if each is not None]
        if len(known) < len(left):
            return None
        free = known[:slots]
        heapq.heapify(free)
        for each in known[slots:]:
            heapq.heapreplace(free, free[0] + each)
        return free[0]

    def _work_left(self, timing: TakeTiming) -> float | None:
        """Estimate the seconds of work that a take still needs."""
        real_time_factor = (self._clock() - timing.started) / timing.spoken if timing.spoken else self.real_time_factor
        return (
            None
            if real_time_factor is None
            else real_time_factor * max(timing.expected - timing.spoken, _OVERDUE * timing.expected)
        )
