"""Something that is done when the page starts, and once a day while it is served."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

DAY = 24 * 3600.0  # seconds


@contextmanager
def daily(task: Callable[[], object], *, seconds: float = DAY) -> Iterator[None]:
    """Does the task in a thread of its own, at once and then every `seconds`; at the end it is waited for.

    What it raises goes to the log, and it is done again the next day.
    """
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                task()
            except Exception:  # whatever it was, it is no reason never to do it again
                log.exception("a daily task failed")
            over.wait(seconds)

    thread = threading.Thread(target=work, name="reprise-daily", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
