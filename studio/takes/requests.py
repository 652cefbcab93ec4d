"""Requests for takes, and takes being generated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.options import SpeakOptions
from engine.text import with_paragraph_pauses
from storage.errors import VoiceNotFound
from storage.repositories.takes import NewTake
from studio.pronunciation import respell_for_owner
from studio.takes.buffer import TakeBuffer
from studio.takes.settings import LANGUAGE, PARAGRAPH_PAUSE, SAMPLING_SETTINGS, SPEED
from studio.voices.available_voices import AvailableVoices

if TYPE_CHECKING:
    from engine.outputs import SpeechResult
    from storage import Storage
    from storage.repositories.takes import TakeRecord
    from studio.engines.measured_speech import MeasuredSpeech
    from studio.engines.model_manager import ModelManager
    from studio.provenance.watermark import Watermark


@dataclass(frozen=True)
class TakeRequest:
    """A take to generate. paragraph_pause: seconds of silence after each paragraph, besides the voice's own pause.

    speed: of the take, at constant pitch.
    """

    text: str
    voice_id: str
    options: SpeakOptions
    paragraph_pause: float = 0.0
    speed: float = 1.0

    @classmethod
    def again(cls, kept: TakeRecord, seed: int | None) -> TakeRequest:
        """Request another take with the text, voice and settings of `kept`. seed: None for a new one.

        Raises VoiceNotFound.
        """
        if kept.voice_id is None:
            raise VoiceNotFound("voices.gone")
        names = (*SAMPLING_SETTINGS, LANGUAGE)
        options: dict[str, Any] = {name: value for name, value in kept.settings.items() if name in names}
        pause = float(kept.settings.get(PARAGRAPH_PAUSE) or 0)
        speed = float(kept.settings.get(SPEED) or 1)
        return cls(kept.text, kept.voice_id, SpeakOptions(**options, seed=seed), pause, speed)


@dataclass(frozen=True)
class UnfinishedTake:
    """A take being generated. voice: name of its voice. buffer: the audio generated so far."""

    request: TakeRequest
    voice: str
    speech: MeasuredSpeech
    buffer: TakeBuffer

    def finish(self, model: str, result: SpeechResult | None, stop_reason: str = "") -> NewTake:
        """Return the take for storage. stop_reason: of a take without a result. Raises InvalidInput."""
        request, buffer = self.request, self.buffer
        buffer.finish()  # a take that ended early has not been finished
        given: dict[str, str | float] = {LANGUAGE: request.options.language, PARAGRAPH_PAUSE: request.paragraph_pause}
        if request.speed != 1:
            given[SPEED] = request.speed
        return NewTake(
            text=request.text,
            audio=buffer.encode("flac"),
            duration=buffer.seconds,
            seed=self.speech.seed,
            voice_name=self.voice,
            voice_id=request.voice_id,
            settings={
                **{name: getattr(request.options, name) for name in SAMPLING_SETTINGS},
                **{name: value for name, value in given.items() if value},
            },
            model=model,
            stop_reason=result.stop_reason if result else stop_reason,
            real_time_factor=result.real_time_factor if result else None,
            first_audio=result.first_audio if result else None,
            words=tuple(buffer.words),
        )


class TakeStarter:
    """Starts takes with the loaded model, respelled with their owner's dictionary."""

    def __init__(self, engine: ModelManager, storage: Storage, watermark: Watermark | None = None) -> None:
        """watermark: for the files of the takes."""
        self._engine, self._storage, self._watermark = engine, storage, watermark

    def begin(self, request: TakeRequest, *, owner: str) -> UnfinishedTake:
        """Start a take. The caller reads the speech into the buffer, finishes that and closes the speech.

        Raises VoiceNotFound, InvalidInput, and what the engine raises.
        """
        engine = self._engine
        voice = AvailableVoices(engine, self._storage.voices).ready(request.voice_id, owner=owner)
        text = with_paragraph_pauses(request.text, request.paragraph_pause)
        language = request.options.language or voice.language
        said = respell_for_owner(self._storage, text, language, owner=owner, phones=engine.info.capabilities.phones)
        options = replace(request.options, word_times=engine.info.capabilities.word_times)
        speech = engine.speak(said.spoken, voice.voice, options, owner=owner)
        speech.front_end = "page"
        buffer = TakeBuffer(speech.sample_rate, self._watermark, text=request.text, speed=request.speed)
        return UnfinishedTake(request, voice.name, speech, buffer)
