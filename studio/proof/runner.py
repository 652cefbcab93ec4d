"""Proof-listening of scripts: hears their takes and repairs those with wrong words, independently of any open page."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.errors import EngineBusy, InvalidInput
from engine.messages import UserMessage
from storage.errors import ScriptNotFound, TakeNotFound, VoiceNotFound
from studio.proof.repair import Repair, repair
from studio.proof.take_checker import TakeChecker
from studio.tracebacks import describe_error
from studio.user_messages import user_message

if TYPE_CHECKING:
    from storage import Storage
    from storage.repositories.scripts.cards import CardRecord
    from storage.repositories.takes import NewTake
    from studio.recognition import Recogniser
    from studio.script.runner import ScriptRunner

log = logging.getLogger(__name__)

BUSY_SECONDS = 0.5  # before the next attempt after EngineBusy
Key = tuple[str, str]  # owner, script


@dataclass(frozen=True)
class ProofProgress:
    """Progress of a run. cards: their number. done: finished ones. card: the current one, "" before the first.

    attempt: number of the attempt to repair it, 1 to MAX_ATTEMPTS; 0 while its take is heard.
    """

    cards: int
    done: int
    card: str
    attempt: int


@dataclass
class _ProofRun:
    """A script that is being heard. cards: the cards to hear, and whether to repair each."""

    owner: str
    script_id: str
    cards: list[tuple[str, bool]] = field(default_factory=list)
    done: int = 0
    card: str = ""
    attempt: int = 0
    on_end: list[Callable[[], None]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)


class ProofRunner:
    """Hears and repairs cards, on one thread per script."""

    def __init__(self, storage: Storage, scripts: ScriptRunner, recogniser: Recogniser) -> None:
        self._storage, self._scripts, self._recogniser = storage, scripts, recogniser
        self._lock = threading.Lock()
        self._runs: dict[Key, _ProofRun] = {}
        self._failures: dict[Key, UserMessage] = {}

    def start(
        self,
        owner: str,
        script_id: str,
        card_ids: Sequence[str] | None = None,
        *,
        repair: bool = False,
        on_end: Callable[[], None] | None = None,
    ) -> int:
        """Hear cards, in order; return their number. They are added to the script's current run if there is one.

        card_ids: None for all with a take that this recogniser has not heard yet and, with `repair`, those with wrong
        words. repair: speak wrong sentences of unlocked cards again with other seeds, until all words are right or
        MAX_ATTEMPTS times, and keep the take with the fewest wrong words. on_end: called when the run is over, also if
        there is nothing to do. Raises ScriptNotFound.
        """
        cards = self._open(owner, script_id, repair) if card_ids is None else list(card_ids)
        with self._lock:
            self._failures.pop((owner, script_id), None)
            run = self._runs.get((owner, script_id))
            is_new = run is None
            begins = is_new and bool(cards)
            if run is None:
                run = _ProofRun(owner, script_id)
            if begins:
                self._runs[owner, script_id] = run
            waiting = set(run.cards[run.done :])
            run.cards += [(card, repair) for card in cards if (card, repair) not in waiting]
            run.on_end += [on_end] if on_end else []
        if begins:
            work = copy_context().run  # as in studio/script/runner.py
            threading.Thread(target=work, args=(self._work, run), name="proof", daemon=True).start()
        elif is_new and on_end:
            on_end()
        return len(cards)

    def stop(self, owner: str, script_id: str) -> None:
        """Stop after the current hearing. A card that is being repaired keeps the best take so far."""
        with self._lock:
            self._failures.pop((owner, script_id), None)
            if run := self._runs.pop((owner, script_id), None):
                run.stopped.set()

    def progress(self, owner: str, script_id: str) -> ProofProgress | None:
        """Return the progress of a script's run; None when there is none."""
        with self._lock:
            run = self._runs.get((owner, script_id))
            return None if run is None else ProofProgress(len(run.cards), run.done, run.card, run.attempt)

    def failure(self, owner: str, script_id: str) -> UserMessage | None:
        """Return why the last run failed; None if it did not. Cleared by `start` and `stop`."""
        return self._failures.get((owner, script_id))

    def _open(self, owner: str, script_id: str, repair: bool) -> list[str]:
        hearings = self._storage.hearings.of_script(script_id, owner=owner)
        recogniser = self._recogniser.name  # read from storage

        def is_open(card: CardRecord) -> bool:
            hearing = hearings.get(card.take_id or "")
            if hearing is None or hearing.recogniser != recogniser:
                return card.take_id is not None
            return repair and hearing.word_error > 0 and not card.locked

        return [card.id for card in self._storage.scripts.cards(script_id, owner=owner) if is_open(card)]

    # ---- on the thread of a run

    def _work(self, run: _ProofRun) -> None:
        try:
            while (following := self._next(run)) is not None:
                self._check_card(run, *following)
                with self._lock:
                    run.done += 1
        except Exception as error:
            log.warning("a script is not checked any further: %s", describe_error(error))
            with self._lock:
                if not run.stopped.is_set():
                    self._failures[run.owner, run.script_id] = user_message(error)
                self._end(run)
        for on_end in run.on_end:
            on_end()

    def _next(self, run: _ProofRun) -> tuple[str, bool] | None:
        with self._lock:
            if run.stopped.is_set() or run.done == len(run.cards):
                self._end(run)
                return None
            card, repair = run.cards[run.done]
            run.card, run.attempt = card, 0
            return card, repair

    def _end(self, run: _ProofRun) -> None:
        if self._runs.get((run.owner, run.script_id)) is run:
            del self._runs[run.owner, run.script_id]

    def _check_card(self, run: _ProofRun, card_id: str, repairs: bool) -> None:
        """Hear one card, and repair it. A card that is changed or deleted meanwhile is skipped."""
        try:
            card = self._storage.scripts.card(card_id, owner=run.owner)
            if card.take_id is None:
                return
            sound = self._storage.history.audio(card.take_id, owner=run.owner)
            checker = self._checker(run, card)
            hearing = checker.check(card.text, sound)
            self._storage.hearings.keep(card.id, card.take_id, hearing, owner=run.owner)
            if repairs and not card.locked:
                take = self._storage.history.get(card.take_id, owner=run.owner)
                speak = partial(self._speak, run, card)
                model = self._scripts.model
                self._repair(run, card, repair(take, sound, hearing, model=model, speak=speak, checker=checker))
        except (ScriptNotFound, TakeNotFound, VoiceNotFound, InvalidInput) as error:
            log.info("a card was changed while it was heard: %s", describe_error(error))

    def _repair(self, run: _ProofRun, card: CardRecord, tries: Repair) -> None:
        """Replace the take of a card by a better one, if there is one and that take is still the chosen one."""
        try:
            while True:
                attempt = next(tries)
                with self._lock:
                    run.attempt = attempt
        except StopIteration as over:
            better = over.value
        if better is None:
            return
        spoken, hearing = better
        self._storage.scripts.attach(card.id, spoken, owner=run.owner, replaces=card.take_id, hearing=hearing)

    def _speak(self, run: _ProofRun, card: CardRecord, text: str) -> NewTake | None:
        """Speak a part of a card's text again; None when the run was stopped."""
        while not run.stopped.is_set():
            try:
                return self._scripts.speak_once(replace(card, text=text), run.stopped, owner=run.owner)
            except EngineBusy:
                run.stopped.wait(BUSY_SECONDS)
        return None

    def _checker(self, run: _ProofRun, card: CardRecord) -> TakeChecker:
        language = ""
        with suppress(VoiceNotFound):
            language = self._storage.voices.get(card.voice_id or "", owner=run.owner).language
        return TakeChecker(self._recogniser, language)
