"""Work done in advance while the engine is idle."""

import logging
import threading
from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)

# Idle seconds before a step, so that a take right after the start, or the next of several, is not slowed down.
QUIET = 2.0


class IdleWork:
    """Runs steps one after the other in a thread, each when the engine has been idle for `QUIET` seconds.

    A step that has begun is finished, so steps should be short. Methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle = self._closed = False
        self._thread: threading.Thread | None = None

    def begin(self, steps: Iterable[Callable[[], object]]) -> None:
        """Run these steps. Only the first call has an effect. A failure is logged; the remaining steps are skipped."""
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, args=(steps,), name="reprise-idle", daemon=True)
                self._thread.start()

    def set_idle(self, idle: bool) -> None:
        """Set whether the engine is idle."""
        with self._changed:
            self._idle = idle
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread after the current step."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self, steps: Iterable[Callable[[], object]]) -> None:
        try:
            for step in steps:
                if not self._wait():
                    return
                step()
        except Exception:
            log.warning("Warming up failed; the work will be done on first use.", exc_info=True)

    def _wait(self) -> bool:
        """Wait until the engine has been idle for long enough. Returns False once closed."""
        with self._changed:
            while not self._closed:
                self._changed.wait_for(lambda: self._idle or self._closed)
                if not self._changed.wait_for(lambda: not self._idle or self._closed, QUIET):
                    return True
            return False
