"""Unloading of an idle model, which the next caller loads again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.release.hub import LoadingProgress
    from studio.engines.current_engine import CurrentEngine
    from studio.engines.speech_engine import SpeechEngine

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IdleUnload:
    """Settings for unloading an idle model.

    seconds: idle time after which it is unloaded. model: the loaded one, by the name that `load` takes. load: creates
    its engine again. release: returns the memory of a closed engine to the system.
    """

    seconds: float
    model: str
    load: Callable[[str, LoadingProgress], SpeechEngine]
    release: Callable[[], object]


class IdleUnloader:
    """Unloads the current engine when it is idle, and loads its model again.

    model: by the name that `IdleUnload.load` takes; set it when another model is loaded.
    """

    def __init__(self, settings: IdleUnload, current: CurrentEngine) -> None:
        self.model = settings.model
        self._settings, self._current = settings, current
        self._unloading = False  # the idle engine is being closed
        self._waking: Future[None] | None = None  # done when the model is loaded again
        self._done = 0.0  # of loading it again, 0 to 1

    @property
    def seconds(self) -> float:
        """Idle time in seconds after which the model is unloaded."""
        return self._settings.seconds

    @property
    def busy(self) -> bool:
        """Whether the model is being unloaded or loaded again."""
        return self._unloading or self.waking is not None

    @property
    def waking(self) -> float | None:
        """How much of the model is loaded again, 0 to 1; None while it is not being loaded."""
        return None if self._waking is None else self._done

    def unload(self) -> bool:
        """Unload the model if it has been idle for long enough; return whether it was unloaded."""
        current = self._current
        with current.changed:
            if current.users or current.switching or current.engine is None or current.idle_seconds < self.seconds:
                return False
            current.status()  # remembers the last one
            engine, self._unloading = current.take(asleep=True), True
        try:
            assert engine is not None, "it was just looked at"
            engine.close()
            del engine
            self._settings.release()
            log.info("%s is unloaded: nobody has used it for %.0f s", current.info.name, self.seconds)
        finally:
            with current.changed:
                self._unloading = False
                current.changed.notify_all()
        return True

    def wake(self) -> Callable[[], None]:
        """Return a function that loads the model again, or waits until another caller has loaded it.

        Call `wake` with the lock of the engine, and the function without it. It raises what `IdleUnload.load` raises.
        """
        if self._waking is not None:
            return self._waking.result
        self._waking = Future()
        return partial(self._load, self._waking)

    def _load(self, waking: Future[None]) -> None:
        """Load the model and set the result of `waking`, or the error, which is raised too."""
        current = self._current
        try:
            with current.changed:
                current.changed.wait_for(lambda: not self._unloading)
            engine = self._settings.load(self.model, self._report)
        except BaseException as error:
            self._end()
            waking.set_exception(error)
            raise
        current.put(engine)
        self._end()
        waking.set_result(None)

    def _end(self) -> None:
        with self._current.changed:
            self._waking, self._done = None, 0.0
            self._current.changed.notify_all()

    def _report(self, _stage: str, done: float) -> None:
        self._done = done
