"""Speaks the cards of scripts that wait for it, whether or not anyone has the page open.

What is to be spoken is in the database: the runner takes the first card that waits, speaks it, attaches the take and
goes on until none waits. When the process ends in between, the cards wait on until someone has them spoken again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.engine import SpeakOptions
from engine.errors import DatabaseUnavailable, EngineBusy, EngineClosed, InvalidInput, RepriseError, ScriptNotFound
from studio.error_text import error_text
from studio.script_places import Places
from studio.takes.buffer import SAMPLING_SETTINGS, TakeBuffer
from studio.traces import reason

if TYPE_CHECKING:
    from engine.request import SpeechResult
    from engine.voice import Voice
    from storage import Studio
    from storage.repositories.cards import CardRecord
    from storage.repositories.generations import Spoken
    from studio.model_manager import MeasuredSpeech, ModelManager

log = logging.getLogger(__name__)

AHEAD = 2  # cards of a script at once, where the engine has the places
BUSY_SECONDS = 0.5  # before an engine that was full is asked again
MAX_FAILURE = 1_000  # characters
NO_VOICE = "This card has no voice: choose one, then speak it again."
NOTHING = "Nothing was spoken: change the text a little, or try it again."
Key = tuple[str, str]  # owner, script


@dataclass
class _Run:
    """A script that is being spoken.

    over: called when its last worker has left it. speeches: by card, None until the engine has begun with it.
    """

    owner: str
    script_id: str
    workers: int = 0
    over: list[Callable[[], None]] = field(default_factory=list)
    speeches: dict[str, MeasuredSpeech | None] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)


class ScriptRunner:
    """Runs of scripts: at most one for each, on threads of their own. One place in the engine is left to others."""

    def __init__(self, engine: ModelManager, studio: Studio) -> None:
        self._engine, self._studio = engine, studio
        self._places = Places(self._places_now)
        self._lock = threading.Lock()
        self._runs: dict[Key, _Run] = {}
        self._troubles: dict[Key, str] = {}

    @property
    def real_time_factor(self) -> float | None:
        """Seconds that a second of a script's sound takes; None while nothing was spoken."""
        factor = self._engine.speed.real_time_factor
        return None if factor is None else factor / min(AHEAD, self._places_now())

    def start(self, owner: str, script_id: str, over: Callable[[], None] | None = None) -> None:
        """Have the cards spoken that wait; they are taken in order, also those that are queued meanwhile.

        over: called once the script is no longer being spoken.
        """
        with self._lock:
            run = self._runs.setdefault((owner, script_id), _Run(owner, script_id))
            run.over += [over] if over else []
            self._troubles.pop((owner, script_id), None)
            while run.workers < min(AHEAD, self._places_now()):
                run.workers += 1
                threading.Thread(target=self._work, args=(run,), name="script", daemon=True).start()

    def stop(self, owner: str, script_id: str) -> None:
        """End a run at once. Cards that are half spoken are not kept; those that wait, wait on."""
        with self._lock:
            run = self._runs.pop((owner, script_id), None)
            self._troubles.pop((owner, script_id), None)
            if run is None:
                return
            run.stopped.set()
            speeches = [speech for speech in run.speeches.values() if speech is not None]
        for speech in speeches:
            speech.cancel()

    def speaking(self, owner: str, script_id: str) -> tuple[str, ...] | None:
        """The cards that the engine is speaking; None when the script is not being spoken."""
        with self._lock:
            run = self._runs.get((owner, script_id))
            return None if run is None else tuple(run.speeches)

    def trouble(self, owner: str, script_id: str) -> str:
        """Why a run ended before its time, until the script is started again."""
        return self._troubles.get((owner, script_id), "")

    def _places_now(self) -> int:
        """In the engine as it is now: it may be another one than before."""
        return max(1, self._engine.slots - 1)

    # ---- on a run's own threads

    def _work(self, run: _Run) -> None:
        try:
            while True:
                with self._places.place(run.owner):
                    card = self._next(run)
                    if card is None:
                        return
                    self._speak(run, card)
        except Exception as error:
            self._give_up(run, error)

    def _next(self, run: _Run) -> CardRecord | None:
        """The first card that waits and that nobody speaks yet. Without one the worker leaves the run."""
        with self._lock:
            card = None if run.stopped.is_set() else self._waiting(run)
            if card is None:
                self._leave(run)
            else:
                run.speeches[card.id] = None
            return card

    def _waiting(self, run: _Run) -> CardRecord | None:
        cards = self._studio.scripts.waiting(run.script_id, len(run.speeches) + 1, owner=run.owner)
        return next((card for card in cards if card.id not in run.speeches), None)

    def _leave(self, run: _Run) -> None:
        run.workers -= 1
        key = (run.owner, run.script_id)
        if run.workers:
            return
        if self._runs.get(key) is run:
            del self._runs[key]
        for over in run.over:
            over()

    def _give_up(self, run: _Run, error: Exception) -> None:
        """The engine or the database is gone, or the script; what waits stays as it is."""
        with self._lock:
            if not run.stopped.is_set() and not isinstance(error, ScriptNotFound):
                self._troubles[run.owner, run.script_id] = error_text(error)
            self._leave(run)

    def _speak(self, run: _Run, card: CardRecord) -> None:
        try:
            spoken = self._spoken(run, card)
            if spoken is not None:
                self._studio.scripts.attach(card.id, spoken, owner=run.owner)
        except EngineBusy:
            run.stopped.wait(BUSY_SECONDS)  # the card waits on, and is taken again
        except (EngineClosed, DatabaseUnavailable):
            raise
        except Exception as error:
            self._fail(run, card, error_text(error))
        finally:
            with self._lock:
                run.speeches.pop(card.id, None)

    def _spoken(self, run: _Run, card: CardRecord) -> Spoken | None:
        """The card's take; None when it was stopped. Raises whatever the engine does, InvalidInput."""
        engine = self._engine
        voice = self._voice(run, card)
        with closing(engine.speak(card.text, voice, options_of(card, engine.usual), owner=run.owner)) as speech:
            take = TakeBuffer(speech.sample_rate)
            self._began(run, card, speech)
            for chunk in speech:
                take.add(chunk)
        result = speech.result
        assert result is not None, "a speech that ended has a result"
        if result.stop_reason == "cancelled":
            return None
        if not take.length:
            raise InvalidInput(NOTHING)
        return self._kept(card, take, voice, result)

    def _voice(self, run: _Run, card: CardRecord) -> Voice:
        if card.voice_id is None:
            raise InvalidInput(NO_VOICE)
        engine = self._engine
        return self._studio.voices.ready(card.voice_id, engine.codec_fingerprint, engine.reencode, owner=run.owner)

    def _began(self, run: _Run, card: CardRecord, speech: MeasuredSpeech) -> None:
        with self._lock:
            run.speeches[card.id] = speech
        if run.stopped.is_set():
            speech.cancel()

    def _kept(self, card: CardRecord, take: TakeBuffer, voice: Voice, result: SpeechResult) -> Spoken:
        return take.finish(
            result,
            text=card.text,
            voice_name=voice.name,
            voice_id=card.voice_id,
            options=options_of(card, self._engine.usual),
            seed=result.seed,
            model=self._engine.name,
        )

    def _fail(self, run: _Run, card: CardRecord, sentence: str) -> None:
        """The next card is spoken all the same. A card that was changed or deleted meanwhile has not failed."""
        try:
            now = self._studio.scripts.card(card.id, owner=run.owner)
            if (now.text, now.voice_id) == (card.text, card.voice_id) and not run.stopped.is_set():
                self._studio.scripts.fail(card.id, sentence[:MAX_FAILURE], owner=run.owner)
        except DatabaseUnavailable:
            raise
        except RepriseError as error:
            log.info("a card went while it was spoken: %s", reason(error))


def options_of(card: CardRecord, usual: SpeakOptions) -> SpeakOptions:
    """How a card is to be spoken: its own settings, else the engine's."""
    own: dict[str, Any] = {name: card.settings.get(name, getattr(usual, name)) for name in SAMPLING_SETTINGS}
    return SpeakOptions(**own, seed=card.seed)
