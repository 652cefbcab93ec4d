"""Waiting for other threads."""

import time
from collections.abc import Callable

TIMEOUT = 60.0  # seconds; generous, because the machine may be busy


def until(condition: Callable[[], object], pause: float = 0.01) -> None:
    """Return once the condition holds. pause: seconds between two looks."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(pause)
