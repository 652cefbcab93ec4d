"""Speaks the queued cards of scripts, independently of any open page.

The queue is in the database: the runner claims the first queued card, speaks it, attaches the take, and continues until
the queue is empty. Claims exclude other processes that speak the same script. When the process ends, the remaining
cards stay queued until the script is started again; its claims lapse after a short time, because it no longer renews
them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.errors import EngineBusy, EngineClosed, InvalidInput
from engine.messages import UserMessage
from storage.errors import ClaimLost, DatabaseUnavailable, ScriptNotFound
from storage.validation import new_id
from studio.script.fair_semaphore import FairSemaphore
from studio.takes.requests import TakeRequest, TakeStarter
from studio.tracebacks import describe_error
from studio.user_messages import user_message

if TYPE_CHECKING:
    from storage import Storage
    from storage.repositories.scripts.cards import CardRecord
    from storage.repositories.takes import NewTake
    from studio.engines.measured_speech import MeasuredSpeech
    from studio.engines.model_manager import ModelManager
    from studio.provenance.watermark import Watermark

log = logging.getLogger(__name__)

CARDS_AT_ONCE = 2  # of a script, if the engine has the slots
BUSY_SECONDS = 0.5  # before the next attempt after EngineBusy
RENEW_SECONDS = 10.0  # between renewals of a run's claims
OTHERS_SECONDS = 2.0  # between two looks at the last cards, which another process speaks
Key = tuple[str, str]  # owner, script


@dataclass
class _ScriptRun:
    """State of a script that is being spoken.

    id: of its claims. starts: number of calls of `start`. on_end: called when the last worker has ended; then `over` is
    set. speeches: by card; None until the engine has accepted the card.
    """

    owner: str
    script_id: str
    id: str = field(default_factory=new_id)
    starts: int = 0
    workers: int = 0
    on_end: list[Callable[[], None]] = field(default_factory=list)
    speeches: dict[str, MeasuredSpeech | None] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


class ScriptRunner:
    """Speaks scripts on its own threads, each at most once at a time. If there are several slots, one stays free."""

    def __init__(self, engine: ModelManager, storage: Storage, watermark: Watermark | None = None) -> None:
        """watermark: for the files of the takes."""
        self._engine, self._storage = engine, storage
        self._take_starter = TakeStarter(engine, storage, watermark)
        self._slots = FairSemaphore(self._slots_now)
        self._lock = threading.Lock()
        self._runs: dict[Key, _ScriptRun] = {}
        self._failures: dict[Key, UserMessage] = {}

    @property
    def model(self) -> str:
        """The model that speaks."""
        return self._engine.info.name

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
            run.starts += 1
            run.on_end += [on_end] if on_end else []
            self._failures.pop((owner, script_id), None)
            while run.workers < min(CARDS_AT_ONCE, self._slots_now()):
                run.workers += 1
                # In the caller's context, which on ZeroGPU identifies the visitor whose quota is used.
                work = copy_context().run
                threading.Thread(target=work, args=(self._work, run), name="script", daemon=True).start()
            if run.starts == 1:
                threading.Thread(target=self._keep_claims, args=(run,), name="script-claims", daemon=True).start()

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
        """Return the cards that this process is speaking; None when it does not run the script."""
        with self._lock:
            run = self._runs.get((owner, script_id))
            return None if run is None else tuple(run.speeches)

    def all_speaking(self, owner: str) -> dict[str, tuple[str, ...]]:
        """Return the cards that any process is speaking, by script, for all scripts of an owner that are running."""
        found = {script_id: set(cards) for script_id, cards in self._storage.scripts.speaking(owner=owner).items()}
        with self._lock:
            for run in self._runs.values():
                if run.owner == owner:
                    found.setdefault(run.script_id, set()).update(run.speeches)
        return {script_id: tuple(sorted(cards)) for script_id, cards in found.items()}

    def failure(self, owner: str, script_id: str) -> UserMessage | None:
        """Return why the last run failed; None if it did not. Cleared by `start` and `stop`."""
        return self._failures.get((owner, script_id))

    def speak_once(self, card: CardRecord, stopped: threading.Event, *, owner: str) -> NewTake | None:
        """Speak a card outside of a run, without storing the take; None when it was stopped.

        Raises InvalidInput, VoiceNotFound, and what the engine raises.
        """
        with self._slots.slot(owner):
            return self._generate(_ScriptRun(owner, card.script_id, stopped=stopped), card)

    def _slots_now(self) -> int:
        """Return the number of slots for scripts. It changes when the model is switched."""
        return max(1, self._engine.info.slots - 1)

    # ---- on the threads of a run

    def _work(self, run: _ScriptRun) -> None:
        try:
            while self._speak_next(run):
                pass
        except Exception as error:
            self._give_up(run, error)
        with self._lock:
            is_last = not run.workers
        if is_last:
            self._end(run)

    def _speak_next(self, run: _ScriptRun) -> bool:
        """Speak the next card in a slot. Returns False if there is none: then the worker has left the run."""
        starts = run.starts
        with self._slots.slot(run.owner):
            card = self._claim(run)
            if card is not None:
                self._speak(run, card)
                return True
        others_speak = self._storage.scripts.others_speak
        if not run.stopped.is_set() and others_speak(run.script_id, run.id, owner=run.owner):
            run.stopped.wait(OTHERS_SECONDS)  # if their process ends, this one speaks their cards
            return True
        with self._lock:
            if run.starts != starts and not run.stopped.is_set():  # cards were queued meanwhile
                return True
            self._leave(run)
            return False

    def _claim(self, run: _ScriptRun) -> CardRecord | None:
        """Claim the next card; None if there is none."""
        if run.stopped.is_set():
            return None
        card = self._storage.scripts.claim(run.script_id, run.id, owner=run.owner)
        if card is not None:
            with self._lock:
                run.speeches[card.id] = None
        return card

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
                self._failures[run.owner, run.script_id] = user_message(error)
            self._leave(run)

    def _end(self, run: _ScriptRun) -> None:
        """End a run that no worker is in, once."""
        with self._lock:
            if run.over.is_set():
                return
            run.over.set()
        try:
            self._storage.scripts.end_run(run.script_id, run.id, owner=run.owner)
        except Exception as error:  # of any type: those who wait for the end are told. The claims lapse
            log.info("a run was not ended in the database: %s", describe_error(error))
        for on_end in run.on_end:  # without the lock, since they may call the runner
            on_end()

    def _keep_claims(self, run: _ScriptRun) -> None:
        """Renew the claims of a run until it is over. If another process stopped the script, cancel its speeches."""
        while not run.over.wait(RENEW_SECONDS):
            with self._lock:
                speeches = list(run.speeches.values())
            try:
                kept = not speeches or self._storage.scripts.renew(run.id)
            except DatabaseUnavailable as error:
                log.warning("claims of cards were not renewed: %s", describe_error(error))
                continue
            if not kept:
                for speech in speeches:
                    if speech is not None:
                        speech.cancel()

    def _speak(self, run: _ScriptRun, card: CardRecord) -> None:
        scripts = self._storage.scripts
        try:
            spoken = self._generate(run, card)
            if spoken is not None:
                scripts.attach(card.id, spoken, owner=run.owner, run_id=run.id)
        except EngineBusy:
            run.stopped.wait(BUSY_SECONDS)  # the card stays queued
        except (ClaimLost, ScriptNotFound) as error:
            log.info("a card was stopped or deleted while it was spoken: %s", describe_error(error))
        except (EngineClosed, DatabaseUnavailable):
            raise
        except Exception as error:
            self._fail(run, card, user_message(error))
        finally:
            with suppress(ClaimLost, ScriptNotFound, DatabaseUnavailable):  # it lapses otherwise
                scripts.release(card.id, run.id, owner=run.owner)
            with self._lock:
                run.speeches.pop(card.id, None)

    def _generate(self, run: _ScriptRun, card: CardRecord) -> NewTake | None:
        """Speak a card; None when it was stopped. Raises InvalidInput, and what the engine raises."""
        if card.voice_id is None:
            raise InvalidInput("cards.no_voice")
        request = TakeRequest(card.text, card.voice_id, self._engine.info.default_options)
        take = self._take_starter.begin(request, owner=run.owner)
        with closing(take.speech) as speech:
            speech.front_end = "script"
            self._began(run, card, speech)
            for chunk in speech:
                take.buffer.add(chunk)
                if run.stopped.is_set():
                    speech.cancel()
        result = speech.result
        assert result is not None, "speech that ended has a result"
        if result.stop_reason == "cancelled":
            return None
        if not take.buffer.length:
            raise InvalidInput("cards.nothing_spoken")
        return take.finish(self._engine.info.name, result)

    def _began(self, run: _ScriptRun, card: CardRecord, speech: MeasuredSpeech) -> None:
        with self._lock:
            run.speeches[card.id] = speech
        if run.stopped.is_set():
            speech.cancel()

    def _fail(self, run: _ScriptRun, card: CardRecord, message: UserMessage) -> None:
        """Store why a card failed, unless it was changed, deleted or stopped meanwhile."""
        scripts = self._storage.scripts
        try:
            now = scripts.card(card.id, owner=run.owner)
            if (now.text, now.voice_id) == (card.text, card.voice_id) and not run.stopped.is_set():
                scripts.fail(card.id, message, owner=run.owner, run_id=run.id)
        except (ClaimLost, ScriptNotFound) as error:
            log.info("a card was stopped or deleted while it was spoken: %s", describe_error(error))
