"""Worker pools of the page."""

from __future__ import annotations

from studio import worker_pool
from web.limits.budgets import PoolFull


class WorkerPool(worker_pool.WorkerPool):
    """A pool that raises PoolFull."""

    def __init__(self, threads: int, capacity: int, per_visitor: int) -> None:
        super().__init__(threads, capacity, per_visitor, PoolFull)
