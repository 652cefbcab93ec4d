"""Concurrency limits per address: a number of calls run, more wait, and further calls are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class TooManyCalls(Exception):
    """An address has too many calls, running and waiting."""


@dataclass
class _AddressSlots:
    room: asyncio.Semaphore
    inside: int = 0


@dataclass
class ConcurrencyLimiter:
    """Limits calls per address. at_once: running calls. most: running and waiting calls."""

    at_once: int
    most: int
    _slots: dict[str, _AddressSlots] = field(default_factory=dict, init=False)

    @asynccontextmanager
    async def enter(self, address: str) -> AsyncIterator[None]:
        """Wait for a slot of an address and hold it during the block. Raises TooManyCalls."""
        slots = self._slots.setdefault(address, _AddressSlots(asyncio.Semaphore(self.at_once)))
        if slots.inside >= self.most:
            raise TooManyCalls
        slots.inside += 1
        try:
            async with slots.room:
                yield
        finally:
            slots.inside -= 1
            if not slots.inside:
                del self._slots[address]
