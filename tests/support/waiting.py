"""Waiting for what other threads do."""

import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds: a busy machine is slow, not wrong


def until(condition: Callable[[], object]) -> None:
    """Returns when it holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
