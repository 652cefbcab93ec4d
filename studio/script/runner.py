"""Speaks the queued cards of scripts, independently of any open page.

The queue is in the database: the runner takes the first queued card, speaks it, attaches the take, and continues until
the queue is empty. When the process ends, the remaining cards stay queued until the script is started again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.engine import SpeakOptions
from engine.errors import DatabaseUnavailable, EngineBusy, EngineClosed, InvalidInput, RepriseError, ScriptNotFound
from engine.sentences import Sentence
from studio.error_sentences import error_sentence
from studio.pronunciation import respell_for_owner
from studio.script.fair_semaphore import FairSemaphore
from studio.takes.buffer import SAMPLING_SETTINGS, TakeBuffer
from studio.traces import describe_error
from studio.voices.available_voices import AvailableVoices

if TYPE_CHECKING:
    from engine.request import SpeechResult
    from storage import Storage
    from storage.repositories.generations import NewGeneration
    from storage.repositories.script.cards import CardRecord
    from studio.engines.model_manager import MeasuredSpeech, ModelManager
    from studio.provenance.watermark import Watermark
    from studio.voices.available_voices import ReadyVoice

log = logging.getLogger(__name__)

CARDS_AT_ONCE = 2  # of a script, if the engine has the slots
BUSY_SECONDS = 0.5  # before the next attempt after EngineBusy
Key = tuple[str, str]  # owner, script


@dataclass
class _ScriptRun:
    """State of a script that is being spoken.

    on_end: called when the last worker has ended. speeches: by card; None until the engine has accepted the card.
    """

    owner: str
    script_id: str
    workers: int = 0
    on_end: list[Callable[[], None]] = field(default_factory=list)
    speeches: dict[str, MeasuredSpeech | None] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)


class ScriptRunner:
    """Speaks scripts on its own threads, each at most once at a time. If there are several slots, one stays free."""

    def __init__(self, engine: ModelManager, storage: Storage, watermark: Watermark | None = None) -> None:
        """watermark: for the files of the takes."""
        self._engine, self._storage, self._watermark = engine, storage, watermark
        self._slots = FairSemaphore(self._slots_now)
        self._lock = threading.Lock()
        self._runs: dict[Key, _ScriptRun] = {}
        self._failures: dict[Key, Sentence] = {}

    @property
    def model(self) -> str:
        """The model that speaks."""
        return self._engine.name

    @property
    def real_time_factor(self) -> float | None:
        """Seconds that a second of a script's audio takes; None before any audio was generated."""
        factor = self._engine.speed.real_time_factor
        return None if factor is None else factor / min(CARDS_AT_ONCE, self._slots_now())

    def start(self, owner: str, script_id: str, on_end: Callable[[], None] | None = None) -> None:
        """Speak the queued cards in order, including those that are queued meanwhile.

        on_end: called when the script is no longer being spoken.
        """
        with self._lock:
            run = self._runs.setdefault((owner, script_id), _ScriptRun(owner, script_id))
            run.on_end += [on_end] if on_end else []
            self._failures.pop((owner, script_id), None)
            while run.workers < min(CARDS_AT_ONCE, self._slots_now()):
                run.workers += 1
                # In the caller's context, which on ZeroGPU identifies the visitor whose quota is used.
                work = copy_context().run
                threading.Thread(target=work, args=(self._work, run), name="script", daemon=True).start()

    def stop(self, owner: str, script_id: str) -> None:
        """Stop speaking a script at once. Unfinished takes are dropped; queued cards stay queued."""
        with self._lock:
            run = self._runs.pop((owner, script_id), None)
            self._failures.pop((owner, script_id), None)
            if run is None:
                return
            run.stopped.set()
            speeches = [speech for speech in run.speeches.values() if speech is not None]
        for speech in speeches:
            speech.cancel()

    def speaking(self, owner: str, script_id: str) -> tuple[str, ...] | None:
        """Return the cards that are being spoken; None when the script is not running."""
        with self._lock:
            run = self._runs.get((owner, script_id))
            return None if run is None else tuple(run.speeches)

    def failure(self, owner: str, script_id: str) -> Sentence | None:
        """Return why the last run failed; None if it did not. Cleared by `start` and `stop`."""
        return self._failures.get((owner, script_id))

    def speak_once(self, card: CardRecord, stopped: threading.Event, *, owner: str) -> NewGeneration | None:
        """Speak a card outside of a run, without storing the take; None when it was stopped.

        Raises InvalidInput, VoiceNotFound, and what the engine raises.
        """
        with self._slots.slot(owner):
            return self._spoken(_ScriptRun(owner, card.script_id, stopped=stopped), card)

    def _slots_now(self) -> int:
        """Return the number of slots for scripts. It changes when the model is switched."""
        return max(1, self._engine.slots - 1)

    # ---- on the threads of a run

    def _work(self, run: _ScriptRun) -> None:
        try:
            while self._speak_next(run):
                pass
        except Exception as error:
            self._give_up(run, error)
        with self._lock:
            callbacks: list[Callable[[], None]] = []
            if not run.workers:
                callbacks, run.on_end = run.on_end, callbacks
        for on_end in callbacks:  # without the lock, since they may call the runner
            on_end()

    def _speak_next(self, run: _ScriptRun) -> bool:
        """Speak the next card in a slot; return False if there is none."""
        with self._slots.slot(run.owner):
            card = self._next(run)
            if card is not None:
                self._speak(run, card)
        return card is not None

    def _next(self, run: _ScriptRun) -> CardRecord | None:
        """Return the first queued card that no worker speaks yet; without one the worker leaves the run."""
        with self._lock:
            card = None if run.stopped.is_set() else self._queued(run)
            if card is None:
                self._leave(run)
            else:
                run.speeches[card.id] = None
            return card

    def _queued(self, run: _ScriptRun) -> CardRecord | None:
        cards = self._storage.scripts.waiting(run.script_id, len(run.speeches) + 1, owner=run.owner)
        return next((card for card in cards if card.id not in run.speeches), None)

    def _leave(self, run: _ScriptRun) -> None:
        """Count a worker out; the caller holds the lock."""
        run.workers -= 1
        key = (run.owner, run.script_id)
        if not run.workers and self._runs.get(key) is run:
            del self._runs[key]

    def _give_up(self, run: _ScriptRun, error: Exception) -> None:
        """End a run because the engine, the database or the script is gone; queued cards stay queued."""
        with self._lock:
            if not run.stopped.is_set() and not isinstance(error, ScriptNotFound):
                self._failures[run.owner, run.script_id] = error_sentence(error)
            self._leave(run)

    def _speak(self, run: _ScriptRun, card: CardRecord) -> None:
        try:
            spoken = self._spoken(run, card)
            if spoken is not None:
                self._storage.scripts.attach(card.id, spoken, owner=run.owner)
        except EngineBusy:
            run.stopped.wait(BUSY_SECONDS)  # the card stays queued
        except (EngineClosed, DatabaseUnavailable):
            raise
        except Exception as error:
            self._fail(run, card, error_sentence(error))
        finally:
            with self._lock:
                run.speeches.pop(card.id, None)

    def _spoken(self, run: _ScriptRun, card: CardRecord) -> NewGeneration | None:
        """Speak a card; None when it was stopped. Raises InvalidInput, and what the engine raises."""
        engine = self._engine
        voice = self._voice(run, card)
        options = replace(options_of(card, engine.default_options), word_times=engine.abilities.word_times)
        text = respell_for_owner(
            self._storage, card.text, voice.language, owner=run.owner, phones=engine.abilities.phones
        )
        with closing(engine.speak(text, voice.voice, options, owner=run.owner)) as speech:
            take = TakeBuffer(speech.sample_rate, self._watermark, text=card.text)
            self._began(run, card, speech)
            for chunk in speech:
                take.add(chunk)
                if run.stopped.is_set():
                    speech.cancel()
        result = speech.result
        assert result is not None, "speech that ended has a result"
        if result.stop_reason == "cancelled":
            return None
        if not take.length:
            raise InvalidInput("cards.nothing_spoken")
        return self._kept(card, take, voice, result)

    def _voice(self, run: _ScriptRun, card: CardRecord) -> ReadyVoice:
        if card.voice_id is None:
            raise InvalidInput("cards.no_voice")
        return AvailableVoices(self._engine, self._storage.voices).ready(card.voice_id, owner=run.owner)

    def _began(self, run: _ScriptRun, card: CardRecord, speech: MeasuredSpeech) -> None:
        with self._lock:
            run.speeches[card.id] = speech
        if run.stopped.is_set():
            speech.cancel()

    def _kept(self, card: CardRecord, take: TakeBuffer, voice: ReadyVoice, result: SpeechResult) -> NewGeneration:
        return take.finish(
            result,
            voice_name=voice.name,
            voice_id=card.voice_id,
            options=options_of(card, self._engine.default_options),
            seed=result.seed,
            model=self._engine.name,
        )

    def _fail(self, run: _ScriptRun, card: CardRecord, sentence: Sentence) -> None:
        """Store why a card failed, unless it was changed or deleted meanwhile."""
        try:
            now = self._storage.scripts.card(card.id, owner=run.owner)
            if (now.text, now.voice_id) == (card.text, card.voice_id) and not run.stopped.is_set():
                self._storage.scripts.fail(card.id, sentence, owner=run.owner)
        except DatabaseUnavailable:
            raise
        except RepriseError as error:
            log.info("a card was deleted while it was spoken: %s", describe_error(error))


def options_of(card: CardRecord, defaults: SpeakOptions) -> SpeakOptions:
    """Return the options of a card: its own settings, else the engine's."""
    own: dict[str, Any] = {name: card.settings.get(name, getattr(defaults, name)) for name in SAMPLING_SETTINGS}
    return SpeakOptions(**own, seed=card.seed)
