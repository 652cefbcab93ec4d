"""Worker pools of the page."""

from __future__ import annotations

from studio.bounded_pool import BoundedPool
from web.limits.budgets import PoolFull


class WorkerPool(BoundedPool):
    """A pool that raises PoolFull."""

    def __init__(self, threads: int, capacity: int, per_visitor: int) -> None:
        super().__init__(threads, capacity, per_visitor, PoolFull)
