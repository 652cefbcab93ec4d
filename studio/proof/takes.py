"""Hears single takes back, and speaks those with wrong words again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from engine.errors import EngineBusy, InvalidInput, VoiceNotFound
from engine.languages import language_tag
from storage.repositories.script.hearings import Hearing
from studio.proof.compare import compare
from studio.takes.buffer import LANGUAGE
from studio.takes.requests import TakeRequest

if TYPE_CHECKING:
    from storage.repositories.generations import GenerationRecord, Spoken
    from studio.engines.model_manager import MeasuredSpeech, ModelManager
    from studio.recognition import Recogniser
    from studio.takes.requests import TakeSpeaker
    from studio.takes.store import TakeStore
    from studio.voices.available_voices import AvailableVoices

TRIES = 4  # a take is spoken again at most so often
MAX_TEXT = 5_000  # characters; a longer text is a script's
MOST = 1_000  # hearings in memory


class TakeProofs:
    """Hears and mends takes that are of no script. What was heard is in memory, and gone with the process.

    Methods block while the recogniser hears. They raise GenerationNotFound for a take that is not the owner's, and what
    the recogniser raises.
    """

    def __init__(
        self,
        engine: ModelManager,
        takes: TakeStore,
        speaker: TakeSpeaker,
        voices: AvailableVoices,
        recogniser: Recogniser,
    ) -> None:
        self._engine, self._takes, self._speaker = engine, takes, speaker
        self._voices, self._recogniser = voices, recogniser
        self._lock = threading.Lock()
        self._hearings: OrderedDict[tuple[str, str], Hearing] = OrderedDict()  # by owner and take, the oldest first

    def hearing(self, take_id: str, *, owner: str) -> Hearing | None:
        """What was heard of a take; None where it was not heard. Does not block."""
        return self._hearings.get((owner, take_id))

    def forget(self, owner: str, take_id: str | None = None) -> None:
        """Drop what was heard of a deleted take, or of all of an owner's."""
        with self._lock:
            gone = [key for key in self._hearings if key[0] == owner and take_id in (None, key[1])]
            for key in gone:
                del self._hearings[key]

    def hear(self, take_id: str, *, owner: str) -> Hearing:
        """Hear a take back. Raises InvalidInput for a text of more than 5,000 characters."""
        kept = self._takes.get(take_id, owner=owner)
        if len(kept.text) > MAX_TEXT:
            raise InvalidInput("take.too_long_to_hear", most=MAX_TEXT)
        return self._keep(owner, take_id, self._heard(kept, self._takes.audio(take_id, owner=owner), owner))

    def mend(
        self, take_id: str, *, owner: str, attach: Callable[[MeasuredSpeech], object]
    ) -> Generator[int, None, GenerationRecord | None]:
        """Speak a take that was heard again, with other seeds, until all words are right, at most TRIES times.

        attach: called with each speech; one that is cancelled ends the tries. Yields the number of each try before it
        begins. Returns the best of the new takes, which is kept; None where none is better. Raises VoiceNotFound,
        and what the engine raises.
        """
        started, kept = self._takes.begin(), self._takes.get(take_id, owner=owner)
        best, found = self.hearing(take_id, owner=owner) or self.hear(take_id, owner=owner), None
        for attempt in range(1, TRIES + 1):
            if not best.word_error:
                break
            yield attempt
            try:
                spoken = self._spoken(kept, owner, attach)
            except EngineBusy:
                if found is None:
                    raise
                break
            if spoken is None:
                break
            hearing = self._heard(kept, spoken.audio, owner)
            if hearing.word_error < best.word_error:
                best, found = hearing, spoken
        made = self._takes.save(found, owner=owner, started=started) if found else None
        if made:
            self._keep(owner, made.id, best)
        return made

    def _spoken(self, kept: GenerationRecord, owner: str, attach: Callable[[MeasuredSpeech], object]) -> Spoken | None:
        """Another take; None when it was stopped, or came to nothing."""
        take = self._speaker.begin(TakeRequest.again(kept, None), owner=owner)
        with closing(take.speech) as speech:
            attach(speech)
            for chunk in speech:
                take.buffer.add(chunk)
        result = speech.result
        if result is None or result.stop_reason == "cancelled" or not take.buffer.length:
            return None
        return take.finish(self._engine.name, result)

    def _heard(self, kept: GenerationRecord, sound: bytes, owner: str) -> Hearing:
        heard = self._recogniser.hear(sound, self._language(kept, owner))
        found = compare(kept.text, heard)
        return Hearing(heard, found.word_error, found.marks, self._recogniser.name)

    def _language(self, kept: GenerationRecord, owner: str) -> str:
        language = str(kept.settings.get(LANGUAGE) or "")
        with suppress(VoiceNotFound):
            language = language or self._voices.get(kept.voice_id or "", owner=owner).language
        return language_tag(language)

    def _keep(self, owner: str, take_id: str, hearing: Hearing) -> Hearing:
        with self._lock:
            self._hearings[owner, take_id] = hearing
            self._hearings.move_to_end((owner, take_id))
            while len(self._hearings) > MOST:
                self._hearings.popitem(last=False)
        return hearing
