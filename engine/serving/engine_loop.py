"""The engine's heart: one thread that advances every request by a frame at a time, continuously batched.

A request (`Ticket`) asks for its turns one after the other. Each turn waits for a slot, has its prompt read in pieces
between the others' frames, speaks, and gives the slot back. Frames go to the codec in pieces as the listener needs
them. Whoever listens is told through `Listener`, whose methods must not wait.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import EngineClosed, EngineError, EngineFailed, first_line
from engine.serving.codec_worker import CodecStream, CodecWorker, Samples
from engine.serving.inbox import Inbox
from engine.serving.model_runner import ModelRunner, PendingFrames
from engine.serving.pacing import Pacer
from engine.serving.scheduler import Scheduler, Ticket
from engine.serving.turn import Turn

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Who asked for a turn. Called from the engine's threads."""

    def heard(self, turn: Turn, samples: Samples, frames: int) -> None:
        """The next piece of the turn's audio, float32 `[n]`."""

    def ended(self, turn: Turn) -> None:
        """All frames of the turn are there; some of their audio may still come."""

    def failed(self, error: Exception) -> None:
        """Nothing more comes."""


@dataclass
class Times:
    """When a turn's stages were reached, on the clock of `time.perf_counter`; 0 for those that were not."""

    begun: float = 0.0  # it had a slot
    ready: float = 0.0  # its prompt was in the cache
    first_piece: float = 0.0  # the frames of its first piece were there


@dataclass(eq=False)
class Speaking:
    """A turn on its way.

    reused: positions of its prompt that did not have to be computed.
    """

    ticket: Ticket
    turn: Turn
    line: CodecStream
    pacer: Pacer
    listener: Listener
    sent: int = 0  # frames given to the codec
    reused: int | None = None
    times: Times = field(default_factory=Times)


class Loop:
    """Owns the runner and the decoding; everything else asks it from any thread."""

    def __init__(self, runner: ModelRunner, decoding: CodecWorker, queue: int) -> None:
        self._runner, self._decoding = runner, decoding
        self.scheduler = Scheduler(runner.slots, queue)
        self._inbox: Inbox[Speaking] = Inbox()
        self._speaking: dict[Ticket, Speaking] = {}
        self._unwanted: SimpleQueue[Tensor] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="reprise-engine", daemon=True)
        self._thread.start()

    def say(self, speaking: Speaking) -> None:
        """Begin a turn of a request. Raises EngineClosed."""
        if not self._inbox.send(speaking):
            raise EngineClosed()

    def leave(self, ticket: Ticket) -> None:
        """End a request, whatever it is doing: before the next frame its slot is free.

        May be called again, and by finalizers.
        """
        self.scheduler.leave(ticket)
        self._inbox.wake()

    def forget(self, columns: Tensor) -> None:
        """Drop what is kept of prompts that begin with `columns` `[K + 1, T]`, before the next frame.

        A request under way keeps what it speaks with until its slot has another use.
        """
        self._unwanted.put(columns)
        self._inbox.wake()

    def close(self) -> None:
        """End everything; listeners get EngineClosed."""
        self._inbox.close()
        self._thread.join()
        self._decoding.close()

    def _run(self) -> None:
        reason: EngineError = EngineClosed()
        try:
            self._work()
        except Exception as error:  # whatever it is, those who wait must not wait for ever
            log.exception("The engine stopped.")
            reason = _failure(error)
        self._inbox.close()
        for speaking in (*self._speaking.values(), *self._inbox.read()):
            # One each: they are raised in several threads, and an error keeps the frames that it went through.
            speaking.listener.failed(type(reason)(str(reason)))

    def _work(self) -> None:
        step: tuple[PendingFrames, list[Speaking]] | None = None
        while self._receive(idle=step is None and not self._speaking):
            plan = self.scheduler.plan()
            started = self._start([self._speaking[ticket] for ticket in plan.speaking])
            if plan.prefill is not None:
                self._prefill(self._speaking[plan.prefill])
            if self._runner.is_asynchronous:  # the device works on this frame while the host sees to the last one
                started, step = step, started
            if started is not None:
                self._deliver(*started)

    def _receive(self, *, idle: bool) -> bool:
        """Let in who has come, and out who has gone; when idle, wait for somebody. False at the end."""
        for speaking in self._wait() if idle else self._inbox.read():
            self._speaking[speaking.ticket] = speaking
            self.scheduler.ask(speaking.ticket)
        for ticket in [ticket for ticket in self._speaking if ticket.gone]:
            self._decoding.drop(self._speaking.pop(ticket).line)
        while not self._unwanted.empty():
            used = {speaking.ticket.slot for speaking in self._speaking.values()}
            self._runner.forget(self._unwanted.get(), [slot for slot in range(self._runner.slots) if slot not in used])
        return not self._inbox.closed

    def _wait(self) -> list[Speaking]:
        while self._inbox.empty and self._runner.capture_next():
            pass  # there is time, and who comes in the meantime waits for one recording at most
        return self._inbox.wait()

    def _start(self, speaking: list[Speaking]) -> tuple[PendingFrames, list[Speaking]] | None:
        slots = [each.ticket.slot for each in speaking if each.ticket.slot is not None]
        if not slots:
            return None
        try:
            return self._runner.step(slots), speaking
        except Exception as error:
            self._fail(speaking, error)
            return None

    def _prefill(self, speaking: Speaking) -> None:
        turn, slot = speaking.turn, speaking.ticket.slot
        assert slot is not None, "who prefills has a slot"
        try:
            if speaking.reused is None:
                speaking.times.begun = time.perf_counter()
                speaking.reused = self._runner.begin(slot, turn.prompt, turn.options, turn.key)
            if self._runner.prefill(slot):
                speaking.times.ready = time.perf_counter()
                self.scheduler.ready(speaking.ticket)
        except Exception as error:
            self._fail([speaking], error)

    def _deliver(self, step: PendingFrames, speaking: Sequence[Speaking]) -> None:
        try:
            frames = step.frames()
        except Exception as error:
            self._fail(speaking, error)
            return
        for each, frame in zip(speaking, frames, strict=True):
            # One that ended or left while its next frame was on the way has no use for it.
            if each.turn.stop is None and self._speaking.get(each.ticket) is each:
                self._push(each, frame)

    def _push(self, speaking: Speaking, frame: NDArray[np.int64]) -> None:
        turn = speaking.turn
        turn.push(frame, self._runner.end_index)
        unsent, wanted = turn.frames - speaking.sent, speaking.pacer.next_frames(time.perf_counter())
        if unsent and turn.stop:
            self._send(speaking, unsent)
        elif unsent >= wanted:
            self._send(speaking, wanted)
        if turn.stop:
            del self._speaking[speaking.ticket]
            self.scheduler.release(speaking.ticket)
            self._decoding.end(speaking.line)
            speaking.listener.ended(turn)

    def _send(self, speaking: Speaking, frames: int) -> None:
        """Give the next frames to the codec."""
        turn, pacer, listener = speaking.turn, speaking.pacer, speaking.listener
        codes = np.stack(turn.codes[speaking.sent : speaking.sent + frames], axis=1)
        if not speaking.sent:
            speaking.times.first_piece = time.perf_counter()
        speaking.sent += frames

        def deliver(samples: Samples | Exception) -> None:
            if isinstance(samples, Exception):
                listener.failed(EngineClosed() if isinstance(samples, EngineClosed) else _failure(samples))
                return
            pacer.sent(frames, time.perf_counter())
            listener.heard(turn, samples, frames)

        self._decoding.submit(speaking.line, codes, deliver)

    def _fail(self, speaking: Sequence[Speaking], error: Exception) -> None:
        """End these turns, and nothing else."""
        log.error("A step of the model failed.", exc_info=error)
        for each in speaking:
            if self._speaking.pop(each.ticket, None) is not None:
                self.scheduler.release(each.ticket)
                self._decoding.drop(each.line)
                each.listener.failed(_failure(error))


def _failure(error: Exception) -> EngineFailed:
    return EngineFailed(f"The model failed while it was speaking ({first_line(error)}); try again.")
