"""The engine of the application: one model at a time, replaced when another one of the host's is chosen.

`ModelManager` has an engine's interface, so that callers do not depend on which model is loaded: speech under way
continues to its end, and calls while another model is loaded are refused with a sentence.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineBusy, EngineClosed, InvalidOption, RepriseError
from engine.sentences import Sentence
from studio.speed import SpeedEstimator, TakeTiming

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.engine import EncodedVoice, EngineStatus, SpeakOptions
    from engine.families.family import Abilities
    from engine.request import AudioChunk, SpeechResult
    from engine.text import GrowingText
    from engine.voice import Consent, OwnVoice, Voice
    from studio.speech_engine import SpeechEngine, SpeechStream

log = logging.getLogger(__name__)

PATIENCE = 120.0  # seconds that speech under way has to end before another model is loaded

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class ModelCatalog:
    """The models that the host allows.

    notices: licence notice by the name that `load` takes. fetch: downloads a model where needed, while another one
    runs. load: makes its engine; called after the previous engine is closed.
    """

    notices: Mapping[str, Sentence]
    fetch: Callable[[str, Progress], object]
    load: Callable[[str, Progress], SpeechEngine]


@dataclass(frozen=True)
class ModelLoading:
    """A model that is being loaded. done: 0 to 1. waits: whether speech under way has to end first."""

    model: str
    done: float = 0.0
    waits: bool = False


@dataclass(frozen=True)
class _EngineInfo:
    """The properties of a closed engine, which are still shown."""

    name: str
    device: str
    notice: Sentence
    sample_rate: int
    frame_length: int
    frame_rate: float
    slots: int
    codec_fingerprint: str
    default_options: SpeakOptions
    style_tags: bool
    english_only: bool
    abilities: Abilities


class ModelChanging(EngineBusy):
    """Another model is being loaded, or speech under way prevents it."""


class ModelManager:
    """The methods of an engine, raising what they raise; ModelChanging while another model is loaded."""

    def __init__(
        self, engine: SpeechEngine, catalog: ModelCatalog | None = None, *, patience: float = PATIENCE
    ) -> None:
        self.speed = SpeedEstimator()
        self.started = time.monotonic()
        self._catalog, self._patience = catalog, patience
        self._changed = threading.Condition()
        self._engine: SpeechEngine | None = engine
        self._status = engine.status()  # the last one
        self._last: SpeechEngine | _EngineInfo = engine
        self._users = 0  # callers that use the engine
        self._loading: ModelLoading | None = None
        self._closing = False  # the engine is about to be closed; new callers are refused

    # ---- properties of the engine

    @property
    def name(self) -> str:
        return self._shown.name

    @property
    def device(self) -> str:
        return self._shown.device

    @property
    def notice(self) -> Sentence:
        return self._shown.notice

    @property
    def sample_rate(self) -> int:
        return self._shown.sample_rate

    @property
    def frame_length(self) -> int:
        return self._shown.frame_length

    @property
    def frame_rate(self) -> float:
        return self._shown.frame_rate

    @property
    def slots(self) -> int:
        return self._shown.slots

    @property
    def codec_fingerprint(self) -> str:
        return self._shown.codec_fingerprint

    @property
    def default_options(self) -> SpeakOptions:
        return self._shown.default_options

    @property
    def style_tags(self) -> bool:
        return self._shown.style_tags

    @property
    def english_only(self) -> bool:
        return self._shown.english_only

    @property
    def abilities(self) -> Abilities:
        return self._shown.abilities

    def status(self) -> EngineStatus:
        """The engine's status; of a closed one the last, with nothing running."""
        engine = self._engine
        if engine is None:
            return replace(self._status, speaking=0, waiting=0)
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
        """As `Engine.encode_voice`."""
        with self._used() as engine:
            return engine.encode_voice(name, references, language=language, description=description, consent=consent)

    def reencode(self, voice: Voice) -> Voice:
        """As `Engine.reencode`."""
        with self._used() as engine:
            return engine.reencode(voice)

    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """As `Engine.reconstruct`."""
        with self._used() as engine:
            return engine.reconstruct(voice)

    def speak(
        self,
        text: str | GrowingText,
        voice: Voice | Sequence[Voice] | OwnVoice | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
    ) -> MeasuredSpeech:
        """As `Engine.speak`. The model stays loaded until the speech is over."""
        engine = self._enter()
        try:
            speech = engine.speak(text, voice, options, owner=owner)
            return MeasuredSpeech(speech, self.speed, len(text), engine.sample_rate, self._leave)
        except BaseException:
            self._leave()
            raise

    def growing_text(self) -> GrowingText:
        """As `Engine.growing_text`."""
        with self._used() as engine:
            return engine.growing_text()

    def check_loaded(self) -> None:
        """Raises ModelChanging while another model takes this one's place, EngineClosed where none is loaded."""
        with self._used():
            pass

    def forget(self, voice: Voice) -> None:
        """As `Engine.forget`; does nothing while no engine is loaded."""
        with suppress(EngineBusy, EngineClosed), self._used() as engine:
            engine.forget(voice)

    def close(self) -> None:
        """End all speech under way and free the model."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    # ---- switching models

    @property
    def models(self) -> Mapping[str, Sentence]:
        """Licence notices by model; empty where the host allows no choice."""
        return self._catalog.notices if self._catalog else {}

    @property
    def loading(self) -> ModelLoading | None:
        """The model that is being loaded."""
        return self._loading

    def switch(self, model: str) -> None:
        """Load another model in place of this one, for all users. Blocks until it is ready.

        Waits for speech under way; when the model cannot be loaded, the previous one is loaded again.

        Raises InvalidOption for a model that the host does not allow; ModelChanging while another is being loaded, or
        when speech does not end in time; ReleaseError and whatever else `Engine.load` raises.
        """
        catalog = self._catalog
        if catalog is None or model not in catalog.notices:
            raise InvalidOption("engine.model_unknown", model=model)
        with self._changed:
            if self._loading:
                raise ModelChanging("engine.model_loading")
            if self._engine is not None and self.name == model:
                return
            self._loading = ModelLoading(model)
        try:
            catalog.fetch(model, self._report)
            before = self._close_engine(model)
            self._engine = self._load(catalog, model, before)
            self._last = self._engine
            self.speed.reset()
        finally:
            with self._changed:
                self._loading, self._closing = None, False

    def _report(self, _stage: str, done: float) -> None:
        if self._loading:
            self._loading = replace(self._loading, done=done)

    def _close_engine(self, model: str) -> str:
        """Close the engine once it is unused, refusing new callers meanwhile. Returns its name."""
        with self._changed:
            self._loading, self._closing = ModelLoading(model, waits=bool(self._users)), True
            if not self._changed.wait_for(lambda: not self._users, self._patience):
                raise ModelChanging("engine.takes_running")
            self._loading = ModelLoading(model)
            engine, self._engine = self._engine, None
        shown = self._shown
        self._last = _EngineInfo(**{name: getattr(shown, name) for name in _EngineInfo.__dataclass_fields__})
        if engine is not None:
            engine.close()
        return shown.name

    def _load(self, catalog: ModelCatalog, model: str, before: str) -> SpeechEngine:
        try:
            return catalog.load(model, self._report)
        except Exception:
            log.warning("the model %s could not be loaded; %s is loaded again", model, before)
            try:
                self._engine = catalog.load(before, self._report)
                self._last = self._engine
            except RepriseError as error:
                log.error("the model %s cannot be loaded any more: %s", before, error)
            raise

    @property
    def _shown(self) -> SpeechEngine | _EngineInfo:
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
        with self._changed:
            if self._closing:
                raise ModelChanging("engine.model_loading")
            if self._engine is None:
                raise EngineClosed("engine.no_model")
            self._users += 1
            return self._engine

    def _leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._changed.notify_all()


class MeasuredSpeech:
    """A `Speech` that reports its progress to the speed estimator. It is over when it is garbage collected."""

    def __init__(
        self, speech: SpeechStream, speed: SpeedEstimator, characters: int, sample_rate: int, over: Callable[[], None]
    ) -> None:
        self.sample_rate = sample_rate  # Hz
        self._speech = speech
        self._timing = speed.begin(characters)
        self._over = weakref.finalize(self, _end, speed, self._timing, over)

    @property
    def seed(self) -> int:
        return self._speech.seed

    @property
    def result(self) -> SpeechResult | None:
        return self._speech.result

    @property
    def place(self) -> int | None:
        """Number of turns before its next one; None when it does not wait."""
        return self._speech.place

    def __iter__(self) -> MeasuredSpeech:
        return self

    def __next__(self) -> AudioChunk:
        try:
            chunk = next(self._speech)
        except BaseException:
            self._over()
            raise
        if not self._timing.spoken:
            self._timing.started += chunk.queued
        self._timing.spoken = (chunk.start + len(chunk.samples)) / self.sample_rate
        return chunk

    def cancel(self) -> None:
        """Stop within one frame, from any thread."""
        self._speech.cancel()

    def close(self) -> None:
        """Cancel, and release its resources."""
        try:
            self._speech.close()
        finally:
            self._over()


def _end(speed: SpeedEstimator, timing: TakeTiming, over: Callable[[], None]) -> None:
    speed.end(timing)
    over()
