"""Something that is done again and again while the page is served."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from studio.traces import trace

log = logging.getLogger(__name__)


@contextmanager
def every(seconds: float, task: Callable[[], object]) -> Iterator[None]:
    """Does the task in a thread of its own, at once and then every `seconds`; at the end it is waited for.

    What it raises goes to the log, and it is done again the next time.
    """
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                task()
            except Exception as error:  # whatever it was, it is no reason never to do it again
                log.error("a recurring task failed\n%s", trace(error))
            over.wait(seconds)

    thread = threading.Thread(target=work, name="reprise-every", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
