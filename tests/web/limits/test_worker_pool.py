"""Worker pools of the page."""

import pytest

from tests.support.looping import run
from web.limits.budgets import PoolFull
from web.limits.worker_pool import WorkerPool


def test_full_pool_says_that_others_are_waiting() -> None:
    async def main() -> None:
        with pytest.raises(PoolFull, match="files"):
            await WorkerPool(1, 0, 1).run("ann", lambda: "done")

    run(main)
