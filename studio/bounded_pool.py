"""Pools of dedicated threads for heavy work, so that it does not delay quick handlers and requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_jobs: WeakSet[Future[Any]] = WeakSet()  # of all pools


def has_running_jobs() -> bool:
    """Return whether a pool runs a job, for which Python waits at its exit. Call it when no more jobs are begun."""
    return any(job.running() for job in _jobs)


class BoundedPool:
    """A pool for jobs of one kind.

    threads: running jobs. capacity: running and waiting jobs. per_visitor: the same, for one visitor. full: the error
    that is raised beyond them.

    Bound to one event loop: `run` and `steps` may only be called there. When a call is cancelled, a job that waits is
    dropped, and one that runs keeps its thread until it ends.
    """

    def __init__(self, threads: int, capacity: int, per_visitor: int, full: Callable[[], Exception]) -> None:
        self._threads = ThreadPoolExecutor(threads, "reprise-pool")
        self._capacity, self._per_visitor, self._full = capacity, per_visitor, full
        self._inside: Counter[str] = Counter()

    async def run(self, visitor: str, work: Callable[[], T], unclaimed: Callable[[T], object] | None = None) -> T:
        """Run a job on a thread and return its result. visitor: any name. Raises `full`, or the job's error.

        unclaimed: called with the result of a job that ran when the call was cancelled, on any thread.
        """
        with self._place(visitor):
            job = self._submit(work)
            try:
                return await asyncio.wrap_future(job)
            except asyncio.CancelledError:
                if unclaimed is not None:
                    job.add_done_callback(partial(_pass_on, unclaimed))
                raise

    async def steps(self, visitor: str, work: Generator[T, None, T | None]) -> AsyncIterator[T]:
        """Yield the values of a generator, each computed on a thread, and the one that it returns. Raises as `run`.

        After the returned value, the end does not wait for a thread. None of the values may be None.
        """
        with self._place(visitor):
            try:
                over = False
                while not over:
                    step, over = await asyncio.wrap_future(self._submit(partial(_advance, work)))
                    if step is not None:
                        yield step
            finally:
                with suppress(ValueError):  # cancelled during a step: the generator is still running
                    work.close()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        job = self._threads.submit(copy_context().run, work)
        _jobs.add(job)
        return job

    @contextmanager
    def _place(self, visitor: str) -> Iterator[None]:
        if self._inside.total() >= self._capacity or self._inside[visitor] >= self._per_visitor:
            raise self._full()
        self._inside[visitor] += 1
        try:
            yield
        finally:
            self._inside[visitor] -= 1
            if not self._inside[visitor]:
                del self._inside[visitor]


def _advance(work: Generator[T, None, T | None]) -> tuple[T | None, bool]:
    """Return a generator's next value, or the one that it returns, and whether it has ended."""
    try:
        return next(work), False
    except StopIteration as end:
        return end.value, True


def _pass_on(unclaimed: Callable[[T], object], job: Future[T]) -> None:
    if not job.cancelled() and job.exception() is None:
        unclaimed(job.result())
