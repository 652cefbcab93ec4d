"""Waiting for other threads."""

import time
from collections.abc import Callable

TIMEOUT = 60.0  # seconds; generous, because the machine may be busy
LONGEST_PAUSE = 0.1  # seconds


def until(condition: Callable[[], object], pause: float = 0.01) -> None:
    """Return once the condition holds. pause: seconds between the first two looks, which often read a database.

    Later pauses are a fifth longer each, up to `LONGEST_PAUSE`.
    """
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(pause)
        pause = min(1.2 * pause, max(pause, LONGEST_PAUSE))
