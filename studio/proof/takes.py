"""Proof-listening of single takes: hears them and repairs those with wrong words."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine.errors import InvalidInput
from storage.errors import TakeNotFound, VoiceNotFound
from studio.proof.repair import repair
from studio.proof.take_checker import TakeChecker
from studio.takes.requests import TakeRequest
from studio.takes.settings import LANGUAGE

if TYPE_CHECKING:
    from storage.repositories.scripts.hearings import Hearing
    from storage.repositories.takes import NewTake, TakeRecord
    from studio.engines.measured_speech import MeasuredSpeech
    from studio.engines.model_manager import ModelManager
    from studio.recognition import Recogniser
    from studio.takes.requests import TakeStarter
    from studio.takes.store import TakeStore
    from studio.voices.available_voices import AvailableVoices

MAX_TEXT = 5_000  # characters; longer texts belong in a script
MAX_HEARINGS = 1_000  # hearings in memory


class TakeProofs:
    """Hears and repairs takes outside of scripts. Hearings are kept in memory only.

    Methods block during recognition. They raise TakeNotFound for a take that is not the owner's, and what the
    recogniser raises.
    """

    def __init__(
        self,
        engine: ModelManager,
        takes: TakeStore,
        take_starter: TakeStarter,
        voices: AvailableVoices,
        recogniser: Recogniser,
    ) -> None:
        self._engine, self._takes, self._take_starter = engine, takes, take_starter
        self._voices, self._recogniser = voices, recogniser
        self._lock = threading.Lock()
        self._hearings: OrderedDict[tuple[str, str], Hearing] = OrderedDict()  # by owner and take, the oldest first

    def hearing(self, take_id: str, *, owner: str) -> Hearing | None:
        """Return the hearing of a take; None if there is none. Does not block."""
        return self._hearings.get((owner, take_id))

    def forget(self, owner: str, take_id: str | None = None) -> None:
        """Drop the hearing of a deleted take, or all hearings of an owner."""
        with self._lock:
            gone = [key for key in self._hearings if key[0] == owner and take_id in (None, key[1])]
            for key in gone:
                del self._hearings[key]

    def hear(self, take_id: str, *, owner: str) -> Hearing:
        """Hear a take. Raises InvalidInput for a text of more than 5,000 characters."""
        kept = self._takes.get(take_id, owner=owner)
        if len(kept.text) > MAX_TEXT:
            raise InvalidInput("take.too_long_to_hear", most=MAX_TEXT)
        sound = self._takes.audio(take_id, owner=owner)
        hearing = self._keep(owner, take_id, self._checker(kept, owner).check(kept.text, sound))
        try:
            self._takes.get(take_id, owner=owner)
        except TakeNotFound:  # deleted in the meantime
            self.forget(owner, take_id)
            raise
        return hearing

    def repair(
        self, take_id: str, *, owner: str, attach: Callable[[MeasuredSpeech], object]
    ) -> Generator[int, None, TakeRecord | None]:
        """Repair a take; see `studio.proof.repair.repair`.

        attach: called with each speech; cancelling one ends the attempts. Yields the number of each attempt before it
        begins. Returns the repaired take, which is saved; None if no attempt is better or the owner's data was deleted.
        Raises VoiceNotFound, and what the engine raises.
        """
        deletion_token, kept = self._takes.deletion_token(owner=owner), self._takes.get(take_id, owner=owner)
        better = yield from repair(
            kept,
            self._takes.audio(take_id, owner=owner),
            self.hearing(take_id, owner=owner) or self.hear(take_id, owner=owner),
            model=self._engine.info.name,
            speak=partial(self._speak, kept, owner, attach),
            checker=self._checker(kept, owner),
        )
        if better is None:
            return None
        spoken, hearing = better
        made = self._takes.save(spoken, owner=owner, deletion_token=deletion_token)
        if made:
            self._keep(owner, made.id, hearing)
        return made

    def _speak(
        self, kept: TakeRecord, owner: str, attach: Callable[[MeasuredSpeech], object], text: str
    ) -> NewTake | None:
        """Speak a part of the text again; None when it was stopped or has no audio."""
        take = self._take_starter.begin(replace(TakeRequest.again(kept, None), text=text), owner=owner)
        with closing(take.speech) as speech:
            attach(speech)
            for chunk in speech:
                take.buffer.add(chunk)
        take.buffer.finish()
        result = speech.result
        if result is None or result.stop_reason == "cancelled" or not take.buffer.length:
            return None
        return take.finish(self._engine.info.name, result)

    def _checker(self, kept: TakeRecord, owner: str) -> TakeChecker:
        language = str(kept.settings.get(LANGUAGE) or "")
        with suppress(VoiceNotFound):
            language = language or self._voices.get(kept.voice_id or "", owner=owner).language
        return TakeChecker(self._recogniser, language)

    def _keep(self, owner: str, take_id: str, hearing: Hearing) -> Hearing:
        with self._lock:
            self._hearings[owner, take_id] = hearing
            self._hearings.move_to_end((owner, take_id))
            while len(self._hearings) > MAX_HEARINGS:
                self._hearings.popitem(last=False)
        return hearing
