"""A take of a text: what is asked for, and its speech on the way to being kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.engine import SpeakOptions
from engine.errors import VoiceNotFound
from engine.text import with_paragraph_pauses
from studio.pronunciation import as_said
from studio.takes.buffer import LANGUAGE, PARAGRAPH_PAUSE, SAMPLING_SETTINGS, TakeBuffer
from studio.voices.available_voices import AvailableVoices

if TYPE_CHECKING:
    from engine.request import SpeechResult
    from storage import Storage
    from storage.repositories.generations import GenerationRecord, Spoken
    from studio.engines.model_manager import MeasuredSpeech, ModelManager
    from studio.provenance.watermark import Watermark


@dataclass(frozen=True)
class TakeRequest:
    """A take to generate. paragraph_pause: seconds of silence after each paragraph, beside what the voice makes."""

    text: str
    voice_id: str
    options: SpeakOptions
    paragraph_pause: float = 0.0

    @classmethod
    def again(cls, kept: GenerationRecord, seed: int | None) -> TakeRequest:
        """The text, voice and settings of a take. seed: None for a new one. Raises VoiceNotFound."""
        if kept.voice_id is None:
            raise VoiceNotFound("voices.gone")
        names = (*SAMPLING_SETTINGS, LANGUAGE)
        options: dict[str, Any] = {name: value for name, value in kept.settings.items() if name in names}
        pause = float(kept.settings.get(PARAGRAPH_PAUSE) or 0)
        return cls(kept.text, kept.voice_id, SpeakOptions(**options, seed=seed), pause)


@dataclass(frozen=True)
class NewTake:
    """A take that is being generated. voice: its voice's name. buffer: what was generated so far."""

    request: TakeRequest
    voice: str
    speech: MeasuredSpeech
    buffer: TakeBuffer

    def finish(self, model: str, result: SpeechResult | None, stop_reason: str = "") -> Spoken:
        """The take as storage keeps it. stop_reason: of a take without a result. Raises InvalidInput."""
        spoken = self.buffer.finish(
            result,
            voice_name=self.voice,
            voice_id=self.request.voice_id,
            options=self.request.options,
            seed=self.speech.seed,
            model=model,
            stop_reason=stop_reason,
        )
        pause = self.request.paragraph_pause
        return replace(spoken, settings={**spoken.settings, PARAGRAPH_PAUSE: pause}) if pause else spoken


class TakeSpeaker:
    """Begins takes with the loaded model, as their owner's dictionary has the words."""

    def __init__(self, engine: ModelManager, storage: Storage, watermark: Watermark | None = None) -> None:
        """watermark: of the takes."""
        self._engine, self._storage, self._watermark = engine, storage, watermark

    def begin(self, request: TakeRequest, *, owner: str) -> NewTake:
        """Begin to speak. The caller reads the speech into the buffer and closes it.

        Raises VoiceNotFound, InvalidInput, and what the engine raises.
        """
        engine = self._engine
        voice = AvailableVoices(engine, self._storage.voices).ready(request.voice_id, owner=owner)
        text = with_paragraph_pauses(request.text, request.paragraph_pause)
        language = request.options.language or voice.language
        text = as_said(self._storage, text, language, owner=owner, phones=engine.abilities.phones)
        options = replace(request.options, word_times=engine.abilities.word_times)
        speech = engine.speak(text, voice.voice, options, owner=owner)
        return NewTake(request, voice.name, speech, TakeBuffer(engine.sample_rate, self._watermark, text=request.text))
