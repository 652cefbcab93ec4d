"""Room for the calls of one address: some at once, some more that wait, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class Crowded(Exception):
    """Too many calls of one address."""


@dataclass
class _Lane:
    room: asyncio.Semaphore
    inside: int = 0


@dataclass
class Lanes:
    """`at_once`: calls of an address that are answered at a time. `most`: with those that wait."""

    at_once: int
    most: int
    _lanes: dict[str, _Lane] = field(default_factory=dict, init=False)

    @asynccontextmanager
    async def enter(self, address: str) -> AsyncIterator[None]:
        """While this lasts, the call has a place. Raises Crowded."""
        lane = self._lanes.setdefault(address, _Lane(asyncio.Semaphore(self.at_once)))
        if lane.inside >= self.most:
            raise Crowded
        lane.inside += 1
        try:
            async with lane.room:
                yield
        finally:
            lane.inside -= 1
            if not lane.inside:
                self._lanes.pop(address, None)
