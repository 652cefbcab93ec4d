"""Periodic background tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from studio.tracebacks import format_traceback

log = logging.getLogger(__name__)


@contextmanager
def every(seconds: float, task: Callable[[], object]) -> Iterator[None]:
    """Run a task in its own thread during the block: at once, and again `seconds` after each run.

    An exception is logged, and the task is repeated. Leaving the block waits for a running task.
    """
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                task()
            except Exception as error:  # of any kind: the next run may succeed
                log.error("a recurring task failed\n%s", format_traceback(error))
            over.wait(seconds)

    thread = threading.Thread(target=work, name="reprise-every", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
