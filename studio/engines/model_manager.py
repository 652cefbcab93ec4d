"""The engine of the application: one model at a time, which can be switched for another that the host allows.

`ModelManager` has the interface of an engine, so that callers do not depend on which model is loaded. A switch waits
for running speech to end, and calls during the switch raise ModelChanging. A model that was unloaded because it was
idle is loaded again by the next call; that call and those after it wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineBusy, EngineClosed, RepriseError
from studio.engines.current_engine import CurrentEngine
from studio.engines.forgotten_voices import ForgottenVoices
from studio.engines.idle_unloader import IdleUnload, IdleUnloader
from studio.engines.measured_speech import MeasuredSpeech
from studio.engines.model_switch import SWITCH_TIMEOUT, ModelCatalog, ModelLoading, ModelSwitch
from studio.engines.speech_metrics import SpeechMetrics
from studio.speed import SpeedEstimator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.info import EngineInfo, EngineStatus
    from engine.messages import UserMessage
    from engine.options import SpeakOptions
    from engine.text import GrowingText
    from engine.voice import BuiltInVoice, Consent, EncodedVoice, Voice
    from studio.engines.speech_engine import SpeechEngine


class ModelManager:
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
        """catalog: None if the host allows no choice. idle: None if the model stays loaded. switch_timeout: seconds
        that `switch` waits for running speech.
        """
        self.speed, self.metrics = SpeedEstimator(), SpeechMetrics()
        self.started = time.monotonic()
        self._current = CurrentEngine(engine, clock)
        self._forgotten = ForgottenVoices(clock)
        self._idle = IdleUnloader(idle, self._current) if idle else None
        self._switch = ModelSwitch(catalog, self._current, self._idle, switch_timeout)

    @property
    def info(self) -> EngineInfo:
        """The properties of the engine, or of the last one."""
        return self._current.info

    @property
    def failure(self) -> RepriseError | None:
        """The error of an engine that has stopped; None without an engine."""
        return self._current.failure

    def status(self) -> EngineStatus:
        """Return the engine's status; for a closed engine, the last one with nothing running."""
        return self._current.status()

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
        requested = self._forgotten.now()
        engine, leave = self._enter(), self._current.leave
        try:
            speech = engine.speak(text, voice, options, owner=owner)
            # Such as voices deleted while the model was loaded for this speech: what it caches is dropped at its end.
            for forgotten in self._forgotten.among(voice, requested):
                self._forget(engine, forgotten)
            return MeasuredSpeech(speech, self.speed, self.metrics, len(text), engine.info.sample_rate, leave)
        except BaseException:
            leave()
            raise

    def growing_text(self) -> GrowingText:
        """See `Engine.growing_text`."""
        with self._used() as engine:
            return engine.growing_text()

    def check_loaded(self) -> None:
        """Raise ModelChanging during a switch, EngineClosed if there is no model or it has stopped.

        A model that was unloaded because it was idle counts as loaded.
        """
        with self._current.changed:
            self._current.check_open()
            if (failure := self.failure) is not None:
                raise EngineClosed() from failure

    def prepare(self, voice: Voice) -> None:
        """See `Engine.prepare`. Does nothing while no engine is loaded."""
        if self._current.engine is not None:
            with suppress(EngineBusy, EngineClosed), self._used() as engine:
                engine.prepare(voice)

    def forget(self, voice: Voice) -> None:
        """See `Engine.forget`. While no engine is loaded, only speech that was requested before is affected."""
        self._forgotten.add(voice)
        engine = self._current.enter_unrefused()  # a switch that waits may end without another model
        if engine is None:
            return
        try:
            self._forget(engine, voice)
        finally:
            self._current.leave()

    def _forget(self, engine: SpeechEngine, voice: Voice) -> None:
        with suppress(EngineBusy, EngineClosed):
            engine.forget(voice)

    def close(self) -> None:
        """End all running speech and free the model."""
        self._current.close()

    @contextmanager
    def _used(self) -> Iterator[SpeechEngine]:
        engine = self._enter()
        try:
            yield engine
        finally:
            self._current.leave()

    def _enter(self) -> SpeechEngine:
        """Return the engine to a user, who has to leave it. Loads the model if it was unloaded."""
        while True:
            with self._current.changed:  # no switch begins before the model is being loaded again
                engine = self._current.enter()
                if engine is not None:
                    return engine
                assert self._idle is not None, "it is asleep"
                load = self._idle.wake()
            load()

    # ---- unloading an idle model

    @property
    def idle_seconds(self) -> float | None:
        """Idle time in seconds after which the model is unloaded; None if it stays loaded."""
        return self._idle.seconds if self._idle else None

    @property
    def asleep(self) -> bool:
        """Whether the model is unloaded because it was idle, or being loaded again."""
        return self._current.asleep

    def unload_idle(self) -> bool:
        """Unload the model if it has been idle for long enough; return whether it was unloaded. Call it regularly."""
        return self._idle is not None and self._idle.unload()

    # ---- switching models

    @property
    def models(self) -> Mapping[str, UserMessage]:
        """Licence notices by model; empty if the host allows no choice."""
        return self._switch.catalog.notices if self._switch.catalog else {}

    @property
    def loading(self) -> ModelLoading | None:
        """The model that is being loaded."""
        loading, waking = self._switch.loading, self._idle.waking if self._idle else None
        return ModelLoading(self.info.name, waking) if loading is None and waking is not None else loading

    def switch(self, model: str) -> None:
        """Load another model in place of this one, for all users. Blocks until it is ready.

        Waits for running speech to end. If the model cannot be loaded, the previous one is loaded again.

        Raises InvalidOption for a model that the host does not allow; ModelChanging while another is being loaded, or
        when speech does not end in time; EngineClosed when the manager is closed; ReleaseError and whatever else
        `Engine.load` raises.
        """
        if self._switch.run(model):
            self.speed.reset()
