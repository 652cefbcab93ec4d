"""The engine that is in use, and its users."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import EngineBusy, EngineClosed, RepriseError

if TYPE_CHECKING:
    from engine.info import EngineInfo, EngineStatus
    from studio.engines.speech_engine import SpeechEngine


class ModelChanging(EngineBusy):
    """Another model is being loaded, or running speech prevented the switch."""


class CurrentEngine:
    """The engine in use, or none, with the state that decides who may use, replace or unload it. Thread-safe.

    changed: guards this object and all that loads and unloads engines; notified when one of its waits may end. users:
    number of calls and speeches that use the engine. last_use: by `clock`. switching: another model is on its way.
    refusing: the engine is about to be replaced, so new users are refused. asleep: there is no engine because the model
    was idle; the next user loads it again. closed: for good.
    """

    def __init__(self, engine: SpeechEngine, clock: Callable[[], float]) -> None:
        self.changed = threading.Condition()
        self.engine: SpeechEngine | None = engine
        self.users = 0
        self.last_use = clock()
        self.switching = self.refusing = self.asleep = self.closed = False
        self._clock = clock
        self._status = engine.status()  # the last known one
        self._last = engine.info

    @property
    def info(self) -> EngineInfo:
        """The properties of the engine, or of the last one."""
        engine = self.engine
        return self._last if engine is None else engine.info

    @property
    def failure(self) -> RepriseError | None:
        """The error of an engine that has stopped; None without an engine."""
        engine = self.engine
        return None if engine is None else engine.failure

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last use."""
        return self._clock() - self.last_use

    def status(self) -> EngineStatus:
        """Return the engine's status; without an engine, the last one with nothing running."""
        engine = self.engine
        if engine is None:
            return replace(self._status, speaking=0, waiting=0, prefix_cache_bytes=(0, 0), device_memory=None)
        self._status = engine.status()
        return self._status

    def check_open(self) -> None:
        """Raise ModelChanging if new users are refused, EngineClosed if there is neither an engine nor one asleep."""
        with self.changed:
            if self.refusing:
                raise ModelChanging("engine.model_loading")
            if self.engine is None and not self.asleep:
                raise EngineClosed("engine.no_model")

    def enter(self) -> SpeechEngine | None:
        """Return the engine to a new user, who has to `leave`; None if it is asleep. Raises as `check_open` does."""
        with self.changed:
            self.check_open()
            return self.enter_unrefused()

    def enter_unrefused(self) -> SpeechEngine | None:
        """Return the engine to a user whom it never refuses, who has to `leave`; None if there is none."""
        with self.changed:
            if self.engine is not None:
                self.users += 1
            return self.engine

    def leave(self) -> None:
        """End a use."""
        with self.changed:
            self.users -= 1
            self.touch()
            self.changed.notify_all()

    def touch(self) -> None:
        """Begin the idle time anew."""
        self.last_use = self._clock()

    def put(self, engine: SpeechEngine) -> bool:
        """Use a loaded engine from now on; if this was closed meanwhile, close the engine and return False."""
        with self.changed:
            used = not self.closed
            if used:
                self.engine, self._last = engine, engine.info
                self.asleep = False
                self.touch()
        if not used:
            engine.close()
        return used

    def take(self, *, asleep: bool = False) -> SpeechEngine | None:
        """Return the engine, which the caller closes, and keep only its properties. asleep: as the attribute."""
        with self.changed:
            self.asleep = self.asleep or asleep
            engine, self.engine = self.engine, None
            return engine

    def close(self) -> None:
        """Close the engine and use none any more."""
        with self.changed:
            engine, self.engine = self.engine, None
            self.closed, self.asleep = True, False
            self.changed.notify_all()
        if engine is not None:
            engine.close()
