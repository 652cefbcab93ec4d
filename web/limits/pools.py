"""Heavy work for visitors, on few threads of its own, so that it never holds up what is quick."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from web.limits.budgets import PoolFull

T = TypeVar("T")


class Pool:
    """Work of one sort: `threads` pieces at once, and with those that wait `line` in all, `each` of one visitor.

    For one event loop, which alone may call `run`.
    """

    def __init__(self, threads: int, line: int, each: int) -> None:
        self._threads, self._line, self._each = threads, line, each
        self._limiter: CapacityLimiter | None = None
        self._inside: Counter[str] = Counter()

    async def run(self, visitor: str, work: Callable[[], T]) -> T:
        """What `work` returns or raises. visitor: any name of who asks. Raises PoolFull, before it begins."""
        with self._place(visitor):
            return await self._worked(work)

    async def steps(self, visitor: str, work: Generator[T, None, None]) -> AsyncIterator[T]:
        """What a generator yields, none of it None. Raises as `run` does."""
        with self._place(visitor):
            try:
                while (step := await self._worked(partial(next, work, None))) is not None:
                    yield step
            finally:
                with suppress(ValueError):  # cancelled in the middle of a step, which goes on to its end
                    work.close()

    async def _worked(self, work: Callable[[], T]) -> T:
        self._limiter = self._limiter or CapacityLimiter(self._threads)
        return await run_sync(work, limiter=self._limiter)

    @contextmanager
    def _place(self, visitor: str) -> Iterator[None]:
        if self._inside.total() >= self._line or self._inside[visitor] >= self._each:
            raise PoolFull()
        self._inside[visitor] += 1
        try:
            yield
        finally:
            self._inside[visitor] -= 1
            if not self._inside[visitor]:
                del self._inside[visitor]
