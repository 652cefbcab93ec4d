"""The engine of the application: one model at a time, which can be switched for another that the host allows.

`ModelManager` has the interface of an engine, so that callers do not depend on which model is loaded. A switch waits
for running speech to end, and calls during the switch raise ModelChanging. A model that was unloaded because it was
idle is loaded again by the next call; that call and those after it wait.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineBusy, EngineClosed, InvalidOption, RepriseError
from engine.messages import UserMessage
from studio.engines.measured_speech import MeasuredSpeech
from studio.engines.speech_engine import EngineInfo, EngineProxy
from studio.engines.speech_metrics import SpeechMetrics
from studio.speed import SpeedEstimator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.engine import EncodedVoice, EngineStatus, SpeakOptions
    from engine.release.hub import LoadingProgress
    from engine.text import GrowingText
    from engine.voice import BuiltInVoice, Consent, Voice
    from studio.engines.speech_engine import SpeechEngine

log = logging.getLogger(__name__)

SWITCH_TIMEOUT = 120.0  # seconds that a switch waits for running speech to end


@dataclass(frozen=True)
class ModelCatalog:
    """The models that the host allows.

    notices: licence notice by the name that `load` takes. fetch: downloads a model if needed, while another one runs.
    load: creates its engine; called after the previous engine is closed.
    """

    notices: Mapping[str, UserMessage]
    fetch: Callable[[str, LoadingProgress], object]
    load: Callable[[str, LoadingProgress], SpeechEngine]


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


@dataclass(frozen=True)
class ModelLoading:
    """A model that is being loaded. done: 0 to 1. waits: whether it waits for running speech to end."""

    model: str
    done: float = 0.0
    waits: bool = False


class ModelChanging(EngineBusy):
    """Another model is being loaded, or running speech prevented the switch."""


class ModelManager(EngineProxy):
    """An engine whose model can be switched. Methods raise what an engine's do, and ModelChanging during a switch."""

    def __init__(
        self,
        engine: SpeechEngine,
        catalog: ModelCatalog | None = None,
        *,
        idle: IdleUnload | None = None,
        switch_timeout: float = SWITCH_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """idle: None if the model stays loaded. switch_timeout: seconds that `switch` waits for running speech."""
        self.speed, self.metrics = SpeedEstimator(), SpeechMetrics()
        self.started = time.monotonic()
        self._catalog, self._switch_timeout = catalog, switch_timeout
        self._changed = threading.Condition()
        self._engine: SpeechEngine | None = engine
        self._status = engine.status()  # the last known one
        self._last: SpeechEngine | EngineInfo = engine
        self._users = 0  # number of callers that use the engine
        self._loading: ModelLoading | None = None
        self._closing = False  # the engine is about to be closed; new callers are refused
        self._idle, self._clock = idle, clock
        self._model = idle.model if idle else ""  # the loaded one, by the name that `IdleUnload.load` takes
        self._last_use = clock()
        self._asleep = False  # unloaded because it was idle; the next caller loads it
        self._unloading = False  # the idle engine is being closed
        self._waking: Future[None] | None = None  # done when the model is loaded again
        self._wake_done = 0.0  # 0 to 1
        self._closed = False

    # ---- properties of the engine

    @property
    def failure(self) -> RepriseError | None:
        """The error of an engine that has stopped; None without an engine."""
        engine = self._engine
        return None if engine is None else engine.failure

    def status(self) -> EngineStatus:
        """Return the engine's status; for a closed engine, the last one with nothing running."""
        engine = self._engine
        if engine is None:
            return replace(self._status, speaking=0, waiting=0, prefix_cache_bytes=(0, 0), device_memory=None)
        self._status = engine.status()
        return self._status

    # ---- methods of the engine

    def encode_voice(
        self,
        name: str,
        references: Sequence[tuple[bytes | str | Path, str]],
        *,
        language: str = "en",
        description: str = "",
        consent: Consent | None = None,
    ) -> EncodedVoice:
        """See `Engine.encode_voice`."""
        with self._used() as engine:
            return engine.encode_voice(name, references, language=language, description=description, consent=consent)

    def reencode(self, voice: Voice) -> Voice:
        """See `Engine.reencode`."""
        with self._used() as engine:
            return engine.reencode(voice)

    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """See `Engine.reconstruct`."""
        with self._used() as engine:
            return engine.reconstruct(voice)

    def speak(
        self,
        text: str | GrowingText,
        voice: Voice | Sequence[Voice] | BuiltInVoice | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
    ) -> MeasuredSpeech:
        """See `Engine.speak`. The model stays loaded until the speech is over."""
        engine = self._enter()
        try:
            speech = engine.speak(text, voice, options, owner=owner)
            return MeasuredSpeech(speech, self.speed, self.metrics, len(text), engine.sample_rate, self._leave)
        except BaseException:
            self._leave()
            raise

    def growing_text(self) -> GrowingText:
        """See `Engine.growing_text`."""
        with self._used() as engine:
            return engine.growing_text()

    def check_loaded(self) -> None:
        """Raise ModelChanging during a switch, EngineClosed if there is no model or it has stopped.

        A model that was unloaded because it was idle counts as loaded.
        """
        with self._changed:
            self._check_open()
            if (failure := self.failure) is not None:
                raise EngineClosed() from failure

    def prepare(self, voice: Voice) -> None:
        """See `Engine.prepare`. Does nothing while no engine is loaded."""
        if self._engine is not None:
            with suppress(EngineBusy, EngineClosed), self._used() as engine:
                engine.prepare(voice)

    def forget(self, voice: Voice) -> None:
        """See `Engine.forget`. Does nothing while no engine is loaded."""
        with self._changed:  # also while a switch waits, which may end without another model
            engine = self._engine
            if engine is None:
                return
            self._users += 1
        try:
            with suppress(EngineBusy, EngineClosed):
                engine.forget(voice)
        finally:
            self._leave()

    def close(self) -> None:
        """End all running speech and free the model."""
        with self._changed:
            engine, self._engine = self._engine, None
            self._closed, self._asleep = True, False
            self._changed.notify_all()
        if engine is not None:
            engine.close()

    # ---- unloading an idle model

    @property
    def idle_seconds(self) -> float | None:
        """Idle time in seconds after which the model is unloaded; None if it stays loaded."""
        return self._idle.seconds if self._idle else None

    @property
    def asleep(self) -> bool:
        """Whether the model is unloaded because it was idle, or being loaded again."""
        return self._asleep

    def unload_idle(self) -> bool:
        """Unload the model if it has been idle for long enough; return whether it was unloaded. Call it regularly."""
        idle = self._idle
        with self._changed:
            engine = self._engine
            busy = self._users or self._loading or engine is None
            if idle is None or busy or self._clock() - self._last_use < idle.seconds:
                return False
            self.status()  # remembers the last one
            self._remember_engine()
            self._engine, self._asleep, self._unloading = None, True, True
        try:
            assert engine is not None, "it was just looked at"
            engine.close()
            del engine
            idle.release()
            log.info("%s is unloaded: nobody has used it for %.0f s", self.name, idle.seconds)
        finally:
            with self._changed:
                self._unloading = False
                self._changed.notify_all()
        return True

    def _wake(self, idle: IdleUnload, waking: Future[None]) -> None:
        """Load the model again and set the result of `waking`, or the error if it could not be loaded."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._unloading)
            engine = idle.load(self._model, self._report_waking)
        except BaseException as error:
            with self._changed:
                self._waking = None
                self._changed.notify_all()
            waking.set_exception(error)
            return
        with self._changed:
            self._waking, self._wake_done, self._last_use = None, 0.0, self._clock()
            used = self._use(engine)
            self._changed.notify_all()
        if not used:
            engine.close()
        waking.set_result(None)

    def _report_waking(self, _stage: str, done: float) -> None:
        self._wake_done = done

    # ---- switching models

    @property
    def models(self) -> Mapping[str, UserMessage]:
        """Licence notices by model; empty if the host allows no choice."""
        return self._catalog.notices if self._catalog else {}

    @property
    def loading(self) -> ModelLoading | None:
        """The model that is being loaded."""
        if self._loading is None and self._waking is not None:
            return ModelLoading(self.name, self._wake_done)
        return self._loading

    def switch(self, model: str) -> None:
        """Load another model in place of this one, for all users. Blocks until it is ready.

        Waits for running speech to end. If the model cannot be loaded, the previous one is loaded again.

        Raises InvalidOption for a model that the host does not allow; ModelChanging while another is being loaded, or
        when speech does not end in time; EngineClosed when the manager is closed; ReleaseError and whatever else
        `Engine.load` raises.
        """
        catalog = self._catalog
        if catalog is None or model not in catalog.notices:
            raise InvalidOption("engine.model_unknown", model=model)
        with self._changed:
            if self._closed:
                raise EngineClosed()
            if self._loading or self._waking:
                raise ModelChanging("engine.model_loading")
            if self._engine is not None and self.name == model and self.failure is None:
                return
            self._loading = ModelLoading(model)
        try:
            catalog.fetch(model, self._report)
            before = self._close_engine(model)
            engine = self._load(catalog, model, before)
            with self._changed:
                used = self._use(engine)
                if used:
                    self._model = model
            if not used:
                engine.close()
                raise EngineClosed()
            self.speed.reset()
        finally:
            with self._changed:
                self._loading, self._closing = None, False
                self._asleep = self._asleep and self._engine is None
                self._last_use = self._clock()

    def _report(self, _stage: str, done: float) -> None:
        if self._loading:
            self._loading = replace(self._loading, done=done)

    def _close_engine(self, model: str) -> str:
        """Close the engine once it is unused, refusing new callers meanwhile. Returns its name."""
        with self._changed:
            self._loading, self._closing = ModelLoading(model, waits=bool(self._users)), True
            if not self._changed.wait_for(
                lambda: self._closed or not (self._users or self._waking or self._unloading), self._switch_timeout
            ):
                raise ModelChanging("engine.takes_running")
            if self._closed:
                raise EngineClosed()
            self._loading = ModelLoading(model)
            self._remember_engine()
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        return self._last.name

    def _remember_engine(self) -> None:
        """Keep the properties of the engine, but not the engine itself."""
        shown = self._shown
        self._last = EngineInfo(**{name: getattr(shown, name) for name in EngineInfo.__dataclass_fields__})

    def _load(self, catalog: ModelCatalog, model: str, before: str) -> SpeechEngine:
        """Load a model; if that fails, load the previous one again and raise the error."""
        try:
            return catalog.load(model, self._report)
        except Exception as error:
            if not self._closed:
                _clear_frames(error)
                self._load_again(catalog, model, before)
            raise

    def _load_again(self, catalog: ModelCatalog, model: str, before: str) -> None:
        log.warning("the model %s could not be loaded; %s is loaded again", model, before)
        try:
            engine = catalog.load(before, self._report)
        except RepriseError as error:
            log.error("the model %s cannot be loaded any more: %s", before, error)
            return
        if not self._use(engine):
            engine.close()

    def _use(self, engine: SpeechEngine) -> bool:
        """Make a loaded engine the current one unless the manager was closed meanwhile; return whether it is in use."""
        with self._changed:
            if not self._closed:
                self._engine = self._last = engine
                self._asleep = False
            return not self._closed

    @property
    def _shown(self) -> SpeechEngine | EngineInfo:
        return self._engine or self._last

    # ---- users of the engine

    @contextmanager
    def _used(self) -> Iterator[SpeechEngine]:
        engine = self._enter()
        try:
            yield engine
        finally:
            self._leave()

    def _enter(self) -> SpeechEngine:
        """Return the engine to a caller, which has to call `_leave`. Loads the model if it was unloaded."""
        while True:
            with self._changed:
                self._check_open()
                if self._engine is not None:
                    self._users += 1
                    return self._engine
                assert self._idle is not None, "it is asleep"
                waking, wakes = self._waking, self._waking is None
                if waking is None:
                    waking = self._waking = Future()
            if wakes:
                self._wake(self._idle, waking)
            waking.result()

    def _check_open(self) -> None:
        if self._closing:
            raise ModelChanging("engine.model_loading")
        if self._engine is None and not self._asleep:
            raise EngineClosed("engine.no_model")

    def _leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._last_use = self._clock()
            self._changed.notify_all()


def _clear_frames(error: BaseException) -> None:
    """Drop the variables that the tracebacks of an error hold: weights, if a model could not be loaded."""
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__context__
