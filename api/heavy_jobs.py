"""Heavy jobs of the API: they have threads of their own, so that keys, lists and health checks never wait for them.

A caller's jobs beyond its share of a pool are refused, so that others get their turns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from api.errors import ServerBusy
from studio.access import Caller
from studio.bounded_pool import BoundedPool

# Threads; running and waiting jobs; the same, of one caller.
CHECKS = 2, 32, 8
VOICES = 2, 32, 8
CLIPS = 4, 128, 32
TRANSCRIPTIONS = 1, 32, 8  # the recogniser takes one file at a time
SPEECHES = 40, sys.maxsize, sys.maxsize  # the engine has its own queue

T = TypeVar("T")


class CallerPool:
    """A pool whose visitors are callers."""

    def __init__(self, threads: int, capacity: int, per_caller: int) -> None:
        self._pool = BoundedPool(threads, capacity, per_caller, ServerBusy)

    async def run(self, caller: Caller, work: Callable[[], T], unclaimed: Callable[[T], object] | None = None) -> T:
        """Run a job as `BoundedPool.run` does. Raises ServerBusy, or the job's error."""
        return await self._pool.run(caller.key.id if caller.key else caller.owner, work, unclaimed)


@dataclass(frozen=True)
class HeavyJobs:
    """Threads by kind of job. checks: of files. voices: making voices. clips: decoding, encoding and merging clips that
    are not kept. transcriptions: of files. speeches: starting speeches, which may wait for the model to be loaded.

    Bound to one event loop, as its pools are.
    """

    checks: CallerPool = field(default_factory=lambda: CallerPool(*CHECKS))
    voices: CallerPool = field(default_factory=lambda: CallerPool(*VOICES))
    clips: CallerPool = field(default_factory=lambda: CallerPool(*CLIPS))
    transcriptions: CallerPool = field(default_factory=lambda: CallerPool(*TRANSCRIPTIONS))
    speeches: CallerPool = field(default_factory=lambda: CallerPool(*SPEECHES))
