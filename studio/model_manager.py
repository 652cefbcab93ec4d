"""The engine that the page speaks with: one at a time, and another one when a model is picked that the host allows.

`Engines` has an engine's own face, so that nobody need know that the engine behind it may change: what was begun goes
on to its end, and what comes while another model is loaded is refused with a sentence.
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
from studio.pace import Pace, Run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.engine import EncodedVoice, Engine, EngineStatus, SpeakOptions
    from engine.request import AudioChunk, Speech, SpeechResult
    from engine.voice import Consent, Voice

log = logging.getLogger(__name__)

PATIENCE = 120.0  # seconds that takes under way are given before another model is loaded
LOADING = "Another model is being loaded, which takes a moment. Try again then."
SPEAKING = "Takes are still being spoken. Load the other model when they have ended."
GONE = "There is no model loaded: the last one could not be. The server's log says why; start it again."

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Choice:
    """The models that the host allows.

    notices: what each is licensed for, by the name that `load` takes. fetch: has a model on this machine, downloading
    it where needed, while another one speaks. load: makes its engine; called when the engine before is closed.
    """

    notices: Mapping[str, str]
    fetch: Callable[[str, Progress], object]
    load: Callable[[str, Progress], Engine]


@dataclass(frozen=True)
class Loading:
    """A model on its way. done: how much of it, 0 to 1. waits: whether takes under way have to end first."""

    model: str
    done: float = 0.0
    waits: bool = False


@dataclass(frozen=True)
class _Facts:
    """What is still shown of an engine that was closed."""

    name: str
    device: str
    notice: str
    sample_rate: int
    frame_length: int
    frame_rate: float
    slots: int
    codec_fingerprint: str
    usual: SpeakOptions
    style_tags: bool
    english_only: bool


class ModelChanging(EngineBusy):
    """Another model is being loaded, or takes are in its way."""


class Engines:
    """All of an engine's methods, raising what they raise; ModelChanging while another model is loaded."""

    def __init__(self, engine: Engine, choice: Choice | None = None, *, patience: float = PATIENCE) -> None:
        self.pace = Pace()
        self.started = time.monotonic()
        self._choice, self._patience = choice, patience
        self._changed = threading.Condition()
        self._engine: Engine | None = engine
        self._status = engine.status()  # the last one that was seen
        self._last: Engine | _Facts = engine
        self._users = 0  # that may not lose the engine
        self._loading: Loading | None = None
        self._closing = False  # the engine goes, and nobody new may use it

    # ---- what an engine is

    @property
    def name(self) -> str:
        return self._shown.name

    @property
    def device(self) -> str:
        return self._shown.device

    @property
    def notice(self) -> str:
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
    def usual(self) -> SpeakOptions:
        return self._shown.usual

    @property
    def style_tags(self) -> bool:
        return self._shown.style_tags

    @property
    def english_only(self) -> bool:
        return self._shown.english_only

    def status(self) -> EngineStatus:
        """What the engine is doing now; of one that is gone what it was, with nobody speaking."""
        engine = self._engine
        if engine is None:
            return replace(self._status, speaking=0, waiting=0)
        self._status = engine.status()
        return self._status

    # ---- what an engine does

    def encode_voice(
        self,
        name: str,
        references: Sequence[tuple[bytes | str | Path, str]],
        *,
        language: str = "en",
        description: str = "",
        consent: Consent | None = None,
    ) -> EncodedVoice:
        """As the engine's."""
        with self._used() as engine:
            return engine.encode_voice(name, references, language=language, description=description, consent=consent)

    def reencode(self, voice: Voice) -> Voice:
        """As the engine's."""
        with self._used() as engine:
            return engine.reencode(voice)

    def reconstruct(self, voice: Voice) -> NDArray[np.float32]:
        """As the engine's."""
        with self._used() as engine:
            return engine.reconstruct(voice)

    def speak(
        self,
        text: str,
        voice: Voice | Sequence[Voice] | None = None,
        options: SpeakOptions | None = None,
        *,
        owner: str = "",
    ) -> MeasuredSpeech:
        """As the engine's, and the model stays until the take is over."""
        engine = self._enter()
        try:
            speech = engine.speak(text, voice, options, owner=owner)
            return MeasuredSpeech(speech, self.pace, len(text), engine.sample_rate, self._leave)
        except BaseException:
            self._leave()
            raise

    def forget(self, voice: Voice) -> None:
        """As the engine's; nothing where there is none at present."""
        with suppress(EngineBusy, EngineClosed), self._used() as engine:
            engine.forget(voice)

    def close(self) -> None:
        """End all speech under way and free the model."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    # ---- another model

    @property
    def models(self) -> Mapping[str, str]:
        """The models to choose from, each with what it is licensed for; none where the host allows no choice."""
        return self._choice.notices if self._choice else {}

    @property
    def loading(self) -> Loading | None:
        """The model that is on its way."""
        return self._loading

    def switch(self, model: str) -> None:
        """Load another model in place of this one, for everyone. Blocks until it speaks.

        Takes under way are waited for; when the model cannot be loaded, the one before is loaded again.

        Raises InvalidOption for a model that the host does not allow; ModelChanging while another is being loaded, or
        when takes do not end for long; ReleaseError and what else `Engine.load` raises.
        """
        choice = self._choice
        if choice is None or model not in choice.notices:
            raise InvalidOption(f"The model {model} is not one of those that can be chosen here.")
        with self._changed:
            if self._loading:
                raise ModelChanging(LOADING)
            if self._engine is not None and self.name == model:
                return
            self._loading = Loading(model)
        try:
            choice.fetch(model, self._report)
            before = self._take_down(model)
            self._engine = self._load(choice, model, before)
            self._last = self._engine
            self.pace.forget()
        finally:
            with self._changed:
                self._loading, self._closing = None, False

    def _report(self, _stage: str, done: float) -> None:
        if self._loading:
            self._loading = replace(self._loading, done=done)

    def _take_down(self, model: str) -> str:
        """Closes the engine once nobody uses it; nobody new is let in from here on. Returns its name."""
        with self._changed:
            self._loading, self._closing = Loading(model, waits=bool(self._users)), True
            if not self._changed.wait_for(lambda: not self._users, self._patience):
                raise ModelChanging(SPEAKING)
            self._loading = Loading(model)
            engine, self._engine = self._engine, None
        shown = self._shown
        self._last = _Facts(**{name: getattr(shown, name) for name in _Facts.__dataclass_fields__})
        if engine is not None:
            engine.close()
        return shown.name

    def _load(self, choice: Choice, model: str, before: str) -> Engine:
        try:
            return choice.load(model, self._report)
        except Exception:
            log.warning("the model %s could not be loaded; %s is loaded again", model, before)
            try:
                self._engine = choice.load(before, self._report)
                self._last = self._engine
            except RepriseError as error:
                log.error("the model %s cannot be loaded any more: %s", before, error)
            raise

    @property
    def _shown(self) -> Engine | _Facts:
        return self._engine or self._last

    # ---- who uses it

    @contextmanager
    def _used(self) -> Iterator[Engine]:
        engine = self._enter()
        try:
            yield engine
        finally:
            self._leave()

    def _enter(self) -> Engine:
        with self._changed:
            if self._closing:
                raise ModelChanging(LOADING)
            if self._engine is None:
                raise EngineClosed(GONE)
            self._users += 1
            return self._engine

    def _leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._changed.notify_all()


class MeasuredSpeech:
    """A `Speech` that tells the pace how it goes. One that nobody holds any more is over."""

    def __init__(self, speech: Speech, pace: Pace, characters: int, sample_rate: int, over: Callable[[], None]) -> None:
        self.sample_rate = sample_rate  # Hz
        self._speech = speech
        self._run = pace.begin(characters)
        self._over = weakref.finalize(self, _end, pace, self._run, over)

    @property
    def seed(self) -> int:
        return self._speech.seed

    @property
    def result(self) -> SpeechResult | None:
        return self._speech.result

    @property
    def place(self) -> int | None:
        """How many turns are before its next one; None when it waits for none."""
        return self._speech.place

    def __iter__(self) -> MeasuredSpeech:
        return self

    def __next__(self) -> AudioChunk:
        try:
            chunk = next(self._speech)
        except BaseException:
            self._over()
            raise
        if not self._run.spoken:
            self._run.began += chunk.queued
        self._run.spoken = (chunk.start + len(chunk.samples)) / self.sample_rate
        return chunk

    def cancel(self) -> None:
        """Stop within one frame, from any thread."""
        self._speech.cancel()

    def close(self) -> None:
        """Cancel, and let go of what it holds."""
        try:
            self._speech.close()
        finally:
            self._over()


def _end(pace: Pace, run: Run, over: Callable[[], None]) -> None:
    pace.end(run)
    over()
