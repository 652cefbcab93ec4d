"""Run the cases of attacks in worker processes, with time and memory limits."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.attack.attack import Attack
from tests.attack.running.outcome import Outcome
from tests.attack.running.worker import WALL_CLOCK_FACTOR, serve

Report = Callable[[Attack, int, Any, Outcome], None]
_WRITING = 1.0  # seconds for a process to write its stack
_STARTING = 120.0  # seconds for a fresh worker's imports


@dataclass(frozen=True)
class Job:
    """A case and its number."""

    attack: Attack
    index: int
    case: Any


class Runner:
    """Worker processes, forked from one with all imports done. Use it in a `with` statement.

    folder: the only folder that they may write to. attacks: replace those of the package.
    """

    def __init__(self, folder: Path, *, workers: int = 1, attacks: dict[str, Attack] | None = None) -> None:
        self._folder, self._count, self._attacks = folder, workers, attacks
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["tests.attack.running.preload"] if attacks is None else ["tests.attack.running.worker"]
        )
        self._idle: list[_Worker] = []

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._idle:
            worker.end()

    def run(self, jobs: Iterable[Job], report: Report) -> None:
        """Run all jobs; calls `report` with each outcome, in any order."""
        waiting, busy = iter(jobs), list[_Worker]()
        while self._fill(waiting, busy):
            ready = wait([worker.connection for worker in busy], timeout=0.5)
            for worker in list(busy):
                outcome = worker.outcome(worker.connection in ready)
                if outcome is None:
                    continue
                busy.remove(worker)
                assert worker.job is not None, "the worker was busy"
                report(worker.job.attack, worker.job.index, worker.job.case, outcome)
                if worker.alive:
                    self._idle.append(worker)

    def _fill(self, waiting: Iterator[Job], busy: list["_Worker"]) -> bool:
        """Give waiting jobs to idle workers. Returns whether any worker is busy."""
        while len(busy) < self._count:
            job = next(waiting, None)
            if job is None:
                break
            worker = self._idle.pop() if self._idle else _Worker(self._context, self._folder, self._attacks)
            worker.begin(job)
            busy.append(worker)
        return bool(busy)


class _Worker:
    """One worker process and its current case."""

    def __init__(self, context: Any, folder: Path, attacks: dict[str, Attack] | None) -> None:
        self.connection: Connection
        self._folder = folder
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, folder, attacks), daemon=True)
        self._process.start()
        theirs.close()
        self.job: Job | None = None
        self.alive = True
        self._deadline = self._seconds = 0.0
        self._fresh = True

    def begin(self, job: Job) -> None:
        self.job, self._seconds = job, job.attack.seconds
        self._deadline = (
            time.monotonic() + WALL_CLOCK_FACTOR * self._seconds + (_STARTING if self._fresh else self._seconds + 5.0)
        )
        self._fresh = False
        self.connection.send((job.attack.name, job.case))

    def outcome(self, ready: bool) -> Outcome | None:
        """The outcome of the current case; None while it runs."""
        if ready:
            try:
                outcome: Outcome = self.connection.recv()
                return outcome
            except (EOFError, OSError):
                self.end()
                return Outcome("died", f"The process ended with exit code {self._process.exitcode}.")
        if time.monotonic() < self._deadline:
            return None
        with suppress(ProcessLookupError):
            os.kill(self._process.pid or 0, signal.SIGUSR1)
        self.connection.poll(_WRITING)  # it writes its stack
        self.end(timeout=0.0)
        return Outcome(
            "slow", f"It did not come back and was killed.\n{self._stacks()}", WALL_CLOCK_FACTOR * self._seconds
        )

    def end(self, timeout: float = 10.0) -> None:
        """End the process: an idle one exits, a busy one is killed."""
        self.alive = False
        self.connection.close()
        self._process.join(timeout)
        self._process.kill()
        self._process.join()

    def _stacks(self) -> str:
        """The stack at the time limit."""
        path = self._folder / f"stacks-{self._process.pid}.txt"
        return path.read_text("utf-8", "replace") if path.exists() else ""
