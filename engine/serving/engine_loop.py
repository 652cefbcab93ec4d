"""The engine loop: one thread that advances every request by one frame at a time (continuous batching).

A request submits its turns one after the other. Each turn waits for a slot; its prompt is prefilled in chunks between
the frames of other turns, several prompts in one step where their chunks are short; its frames are generated and go to
the codec worker in chunks; then the slot is free again.
Audio and errors reach the reader through the turn's `EventStream`.
"""

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from weakref import WeakSet

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from engine.errors import EngineBusy, EngineClosed, EngineError, EngineFailed, first_line
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.serving.codec_worker import CodecWorker, Samples
from engine.serving.idle_work import IdleWork
from engine.serving.inbox import Inbox
from engine.serving.pacing import CHUNK_FRAMES
from engine.serving.runner.model_runner import ModelRunner, PendingFrames
from engine.serving.scheduler import Scheduler, Ticket
from engine.serving.turn import AudioDecoded, EventStream, Turn, TurnEnded

log = logging.getLogger(__name__)

_PREPARED = 4  # prefixes that wait to be prepared

_running: "set[EngineLoop]" = set()


@atexit.register
def _close_all() -> None:
    """End the threads of open loops: a thread that computes while Python shuts down would abort it."""
    for loop in tuple(_running):
        loop.close()


@dataclass(frozen=True)
class _ForgottenPrefix:
    """A prefix to forget, all of it shared, and the requests that may still cache it."""

    prompt: Prompt
    users: tuple[Ticket, ...]


class EngineLoop:
    """Owner of the model runner and the codec worker. Its public methods may be called from any thread.

    idle_work: work done in advance while there are no turns.
    """

    def __init__(self, runner: ModelRunner, codec_worker: CodecWorker, queue: int) -> None:
        self._runner, self._codec_worker = runner, codec_worker
        self.scheduler = Scheduler(runner.slots, queue)
        self._inbox: Inbox[Turn] = Inbox()
        self._turns: dict[Ticket, Turn] = {}
        self._stashed: dict[Ticket, bytes] = {}  # keys of `ModelRunner.stash`
        self._to_prepare: deque[Prompt] = deque(maxlen=_PREPARED)
        self._to_forget: SimpleQueue[_ForgottenPrefix] = SimpleQueue()
        self._forgetting: dict[Ticket, list[Prompt]] = {}  # prefixes to forget again when a request has left
        self._events: WeakSet[EventStream] = WeakSet()  # of requests with and without a turn
        self._events_lock = threading.Lock()
        self.idle_work = IdleWork()
        self._thread = threading.Thread(target=self._run, name="reprise-engine", daemon=True)
        self._thread.start()
        _running.add(self)

    def enter(self, owner: str, reader_timeout: float) -> tuple[Ticket, EventStream]:
        """Enter a request. Returns its place in the engine and its events, which end with an error when the loop ends.

        Raises EngineBusy.
        """
        ticket = self._enter(owner)
        events = EventStream(partial(self.leave, ticket), reader_timeout)
        with self._events_lock:
            self._events.add(events)
            if self._inbox.closed:
                events.put(EngineClosed())
        return ticket, events

    def _enter(self, owner: str) -> Ticket:
        """Open a request; if the queue is full, remove those that nobody reads. Raises EngineBusy."""
        try:
            return self.scheduler.enter(owner)
        except EngineBusy:
            with self._events_lock:
                entered = list(self._events)
            if not sum(events.leave_if_unread() for events in entered):  # of all, not only of the first
                raise
            return self.scheduler.enter(owner)

    def submit(self, turn: Turn) -> None:
        """Begin a turn. Raises EngineClosed."""
        if not self._inbox.send(turn):
            raise EngineClosed()

    def leave(self, ticket: Ticket) -> None:
        """End a request in any stage; its slot is free before the next frame.

        Idempotent; finalizers may call it.
        """
        self.scheduler.leave(ticket)
        self._inbox.wake()

    def prepare(self, prefix: Prompt) -> None:
        """Compute the keys and values of a prefix, all of it shared, while no request is open.

        The prefix that was asked for last comes first. Few wait; the oldest of more are dropped.
        """
        self._to_prepare.append(prefix)
        self._inbox.wake()

    def forget(self, prefix: Prompt) -> None:
        """Drop the cached keys and values of prompts that begin with `prefix`, and its codec context, before the next
        frame.

        Open requests may continue to use them; what they cache is dropped when they have left.
        """
        self._to_forget.put(_ForgottenPrefix(prefix, tuple(self.scheduler.open_tickets())))
        self._inbox.wake()

    @property
    def is_running(self) -> bool:
        """Whether requests can be spoken: False once closed, after an error that ended a thread, and in a forked
        process, which has no threads of its parent."""
        return self._thread.is_alive() and not self._inbox.closed and self._codec_worker.is_running

    def close(self) -> None:
        """End all requests with EngineClosed, and all threads."""
        self._inbox.close()
        self._thread.join()
        self._codec_worker.close()
        self.idle_work.close()
        _running.discard(self)

    def _run(self) -> None:
        reason: EngineError = EngineClosed()
        try:
            with self._runner.stream():
                self._work()
        except Exception as error:  # of any type: waiting readers must receive it
            log.exception("The engine stopped.")
            reason = _failure(error)
        with self._events_lock:
            self._inbox.close()
            waiting = list(self._events)
        for events in waiting:
            # One error per reader: each is raised in its own thread, and its traceback keeps that thread's frames.
            events.put(type(reason)(reason.message.key, **reason.message.values))

    def _work(self) -> None:
        step: tuple[PendingFrames, list[Turn]] | None = None
        while self._receive(idle=step is None and not self._turns):
            plan = self.scheduler.plan()
            started = self._start_step([self._turns[ticket] for ticket in plan.speaking])
            for slot, ticket in plan.displaced.items():
                self._stash(slot, ticket)
            self._prefill([self._turns[ticket] for ticket in plan.prefill])
            if self._runner.is_asynchronous:  # the device computes this step while the host handles the previous one
                started, step = step, started
            if started is not None:
                self._finish_step(*started)

    def _receive(self, *, idle: bool) -> bool:
        """Add new turns and remove those of requests that left; wait for one when idle. Returns False once closed."""
        for turn in self._wait() if idle else self._inbox.read():
            self._turns[turn.ticket] = turn
            self.scheduler.enqueue(turn.ticket)
        for ticket in [ticket for ticket in self._turns if ticket.gone]:
            self._codec_worker.drop(self._turns.pop(ticket).stream)
        for ticket in [ticket for ticket in self._stashed if ticket.gone]:
            self._runner.drop_stash(self._stashed.pop(ticket))
        self._forget_prefixes()
        return not self._inbox.closed

    def _forget_prefixes(self) -> None:
        """Forget prefixes at once, and again when each of the requests that may still cache them has left."""
        left = [ticket for ticket in self._forgetting if ticket.gone and ticket not in self._turns]
        due = [prefix for ticket in left for prefix in self._forgetting.pop(ticket)]
        while not self._to_forget.empty():
            forgotten = self._to_forget.get()
            due.append(forgotten.prompt)
            for ticket in forgotten.users:
                self._forgetting.setdefault(ticket, []).append(forgotten.prompt)
            waiting = [self._to_prepare.popleft() for _ in range(len(self._to_prepare))]
            self._to_prepare.extend(each for each in waiting if not torch.equal(each.columns, forgotten.prompt.columns))
        if not due:
            return
        used = {turn.ticket.slot for turn in self._turns.values()}
        free = [slot for slot in range(self._runner.slots) if slot not in used]
        for prefix in due:
            try:
                self._runner.forget(prefix, free)
            except Exception as error:  # ends no request, as the prefix is not reused
                self._fail([], error)
            if prefix.codec_context is not None:
                self._codec_worker.forget(prefix.codec_context.numpy())

    def _wait(self) -> list[Turn]:
        while self._inbox.empty and (self._prepare_next() or self._runner.capture_next()):
            pass  # idle time is used for prefixes and captures; a turn waits for one chunk or capture at most
        self._set_idle(True)
        turns = self._inbox.wait()
        self._set_idle(False)
        return turns

    def _prepare_next(self) -> bool:
        """Compute the prefix that was asked for last, unless a message comes first. Returns False if there is none."""
        if not self._to_prepare or self.scheduler.open_tickets():  # an open request may continue in any slot
            return False
        prefix, slot = self._to_prepare[-1], 0  # the slot that a request gets first: it goes on from what is computed
        try:
            if not self._runner.has_prefix(prefix):  # else the slot keeps what it holds: a text may be spoken again
                # The last column of a prompt is not prefilled.
                self._runner.begin(slot, replace(prefix, columns=F.pad(prefix.columns, (0, 1))), SamplingOptions(), 0)
                while not self._runner.prefill([slot]):
                    if not self._inbox.empty:
                        return True  # it is computed later
        except Exception as error:  # the request that needs the prefix will tell
            self._fail([], error)
        with suppress(ValueError):  # enough others were asked for meanwhile
            self._to_prepare.remove(prefix)
        return True

    def _set_idle(self, idle: bool) -> None:
        self.idle_work.set_idle(idle)
        self._codec_worker.set_engine_idle(idle)

    def _start_step(self, turns: list[Turn]) -> tuple[PendingFrames, list[Turn]] | None:
        slots = [turn.ticket.slot for turn in turns if turn.ticket.slot is not None]
        if not slots:
            return None
        try:
            return self._runner.step(slots), turns
        except Exception as error:
            self._fail(turns, error)
            return None

    def _stash(self, slot: int, ticket: Ticket) -> None:
        """Keep what an open request has spoken in a slot that it no longer has."""
        try:
            if key := self._runner.stash(slot):
                old = self._stashed.get(ticket)
                if old not in (None, key):  # equal when nothing has been accepted since
                    self._runner.drop_stash(old)
                self._stashed[ticket] = key
        except Exception as error:  # such as out of memory: the request computes it again
            log.warning("What a request has spoken could not be kept for its next turn: %s", error)

    def _prefill(self, turns: Sequence[Turn]) -> None:
        """Prefill the next piece of the first turn's prompt, and of as many others as fit the budget."""
        room, batch = self._runner.prefill_budget, dict[int, Turn]()
        for turn in turns:
            slot = turn.ticket.slot
            assert slot is not None, "a ticket that is prefilling has a slot"
            if not self._begin(turn, slot):
                continue
            room -= self._runner.prefill_cost(slot)
            if batch and room < 0:
                break
            batch[slot] = turn
        for slots in [[slot] for slot in batch] if self._runner.prefills_alone or not batch else [list(batch)]:
            try:
                complete = self._runner.prefill(slots)
            except Exception as error:
                self._fail([batch[slot] for slot in slots], error)
                continue
            for slot in complete:
                batch[slot].ready_at = time.perf_counter()
                self.scheduler.ready(batch[slot].ticket)

    def _begin(self, turn: Turn, slot: int) -> bool:
        """Assign a turn's prompt to its slot, once. If that fails, end the turn and return False."""
        if turn.reused is None:
            try:
                turn.started_at = time.perf_counter()
                turn.reused = self._runner.begin(slot, turn.prompt, turn.options, turn.key)
            except Exception as error:
                self._fail([turn], error)
                return False
        return True

    def _finish_step(self, step: PendingFrames, turns: Sequence[Turn]) -> None:
        try:
            frames = step.frames()
        except Exception as error:
            self._fail(turns, error)
            return
        for turn, frame in zip(turns, frames, strict=True):
            # The frame of a turn that ended or left after this step was started is discarded.
            if turn.stop is None and self._turns.get(turn.ticket) is turn:
                self._push(turn, frame)

    def _push(self, turn: Turn, frame: NDArray[np.int64]) -> None:
        turn.push(frame, self._runner.end_index)
        unsent, wanted = turn.frames - turn.submitted, turn.pacer.next_frames(time.perf_counter())
        if unsent and turn.stop:
            self._submit_chunk(turn, unsent)
        elif unsent >= wanted:
            self._submit_chunk(turn, wanted)
        if turn.stop:
            if turn.stop == "end" and turn.codes and turn.ticket.slot is not None:
                self._runner.append_generated(turn.ticket.slot, np.stack(turn.codes, axis=1))
            del self._turns[turn.ticket]
            self.scheduler.release(turn.ticket)
            self._codec_worker.end(turn.stream)
            turn.events.put(TurnEnded(turn.number))

    def decode_all(self, turn: Turn) -> None:
        """Submit all frames of a turn that has ended to the codec worker, in place of those submitted before."""
        while frames := min(turn.frames - turn.submitted, CHUNK_FRAMES[-1]):
            self._submit_chunk(turn, frames)
        self._codec_worker.end(turn.stream)

    def _submit_chunk(self, turn: Turn, frames: int) -> None:
        """Submit the next frames to the codec worker."""
        codes = np.stack(turn.codes[turn.submitted : turn.submitted + frames], axis=1)
        if not turn.submitted:
            turn.first_chunk_at = time.perf_counter()
        turn.submitted += frames
        # `deliver` must not hold the turn, whose codec stream holds `deliver` until the chunk is decoded.
        number, pacer, events, length = turn.number, turn.pacer, turn.events, self._codec_worker.frame_length

        def deliver(samples: Samples | Exception) -> None:
            if isinstance(samples, Exception):
                events.put(EngineClosed() if isinstance(samples, EngineClosed) else _failure(samples))
                return
            complete = len(samples) // length  # not always those that were submitted: there may be a postfilter
            pacer.sent(complete, time.perf_counter())
            events.put(AudioDecoded(number, samples, complete))

        self._codec_worker.submit(turn.stream, codes, deliver)

    def _fail(self, turns: Sequence[Turn], error: Exception) -> None:
        """End only these turns with the error; raise it if no other turn could be spoken."""
        log.error("A step of the model failed.", exc_info=error)
        for turn in turns:
            if self._turns.pop(turn.ticket, None) is not None:
                self.scheduler.release(turn.ticket)
                self._codec_worker.drop(turn.stream)
                turn.events.put(_failure(error))
        if self._runner.is_lost:
            raise error


def _failure(error: Exception) -> EngineFailed:
    return EngineFailed("engine.model_failed", why=first_line(error))
