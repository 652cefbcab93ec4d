"""Heavy jobs of the API: they have threads of their own, so that keys, lists and health checks never wait for them.

A caller's jobs beyond its share of a pool are refused, so that others get their turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from api.errors import ServerBusy
from studio.access import Caller
from studio.bounded_pool import BoundedPool

# Threads; running and waiting jobs; the same, of one caller.
CHECKS = 2, 32, 8
VOICES = 2, 32, 8
CLIPS = 4, 128, 32
TRANSCRIPTIONS = 1, 32, 8  # the recogniser takes one file at a time
STARTING = 40  # threads

P = ParamSpec("P")
T = TypeVar("T")


class CallerPool:
    """A pool whose visitors are callers."""

    def __init__(self, threads: int, capacity: int, per_caller: int) -> None:
        self._pool = BoundedPool(threads, capacity, per_caller, ServerBusy)

    async def run(self, caller: Caller, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Call `work` on a thread and return its result. Raises ServerBusy, or the error of the call."""
        visitor = caller.key.id if caller.key else caller.owner
        return await self._pool.run(visitor, partial(work, *given, **named))


class StartingSpeeches:
    """Threads that start speeches, which may wait for the model to be loaded. The engine has its own queue."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    async def run(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Call `work` on a thread and return its result."""
        self._limiter = self._limiter or CapacityLimiter(STARTING)
        return await run_sync(partial(work, *given, **named), limiter=self._limiter)


@dataclass(frozen=True)
class HeavyJobs:
    """Threads by kind of job. checks: of files. voices: making voices. clips: decoding, encoding and merging clips that
    are not kept. transcriptions: of files. speeches: starting speeches.

    Bound to one event loop, as its pools are.
    """

    checks: CallerPool = field(default_factory=lambda: CallerPool(*CHECKS))
    voices: CallerPool = field(default_factory=lambda: CallerPool(*VOICES))
    clips: CallerPool = field(default_factory=lambda: CallerPool(*CLIPS))
    transcriptions: CallerPool = field(default_factory=lambda: CallerPool(*TRANSCRIPTIONS))
    speeches: StartingSpeeches = field(default_factory=StartingSpeeches)
