"""Bounded pools: few threads, a bounded queue, and no lost work."""

import asyncio
import threading
from collections.abc import Generator

import anyio
import pytest

from studio.bounded_pool import BoundedPool
from tests.support.looping import run


class Full(Exception):
    """Raised beyond the limits of a pool."""


class Work:
    """A job that blocks until `go` is set; counts how many of its calls run at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.now = self.most = self.done = 0
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.go.wait(30)
        with self._lock:
            self.now -= 1
            self.done += 1
        return "done"


def test_pool_bounds_running_and_waiting_jobs() -> None:
    work, answers = Work(), []

    async def main() -> None:
        pool = BoundedPool(2, 5, 3, Full)

        async def ask(visitor: str) -> None:
            answers.append(await pool.run(visitor, work))

        async with anyio.create_task_group() as group:
            for visitor in ("ann", "ann", "ann", "ben", "ben"):
                group.start_soon(ask, visitor)
            await anyio.wait_all_tasks_blocked()
            while work.now < 2:  # the threads may still be starting
                await anyio.sleep(0.01)
            for visitor in ("ann", "carl"):
                with pytest.raises(Full):
                    await pool.run(visitor, work)
            work.go.set()
        assert await pool.run("ann", work) == "done"
        assert not pool._inside

    run(main)
    assert (answers, work.most, work.done) == (["done"] * 5, 2, 6)


def test_visitor_is_limited_to_a_share_of_the_queue() -> None:
    work = Work()

    async def main() -> None:
        pool = BoundedPool(1, 10, 2, Full)
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(pool.run, "ann", work)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(Full):
                await pool.run("ann", work)
            group.start_soon(pool.run, "ben", work)
            await anyio.wait_all_tasks_blocked()
            work.go.set()

    run(main)
    assert work.done == 3


def test_failed_job_frees_its_slot() -> None:
    async def main() -> None:
        pool = BoundedPool(1, 1, 1, Full)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await pool.run("ann", lambda: 1 / 0)

    run(main)


def test_cancelled_job_keeps_its_thread_until_it_ends_and_a_waiting_one_is_dropped() -> None:
    work, unclaimed = Work(), list[str]()

    async def main() -> None:
        pool = BoundedPool(1, 3, 3, Full)
        running, waiting, last = (asyncio.create_task(pool.run("ann", work, unclaimed.append)) for _ in range(3))
        while not work.now:  # the thread may still be starting
            await asyncio.sleep(0.01)
        for job in (running, waiting):
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
        assert pool._inside == {"ann": 1}, "their places are free"
        work.go.set()
        assert await last == "done"

    run(main)
    assert (work.most, work.done, unclaimed) == (1, 2, ["done"])


def test_steps_run_in_order_and_close_the_generator() -> None:
    closed: list[str] = []

    def work(name: str) -> Generator[int, None, None]:
        try:
            yield from (1, 2, 3)
        finally:
            closed.append(name)

    async def main() -> None:
        pool = BoundedPool(1, 1, 1, Full)
        assert [step async for step in pool.steps("ann", work("all"))] == [1, 2, 3]
        left = pool.steps("ann", work("left"))
        assert await anext(left) == 1
        with pytest.raises(Full):
            await anext(pool.steps("ben", work("refused")))
        await left.aclose()  # type: ignore[attr-defined]
        assert [step async for step in pool.steps("ben", work("next"))] == [1, 2, 3]

    run(main)
    assert closed == ["all", "left", "next"]


def test_the_end_of_steps_and_the_value_that_they_return_do_not_wait_for_others() -> None:
    other = Work()

    def work() -> Generator[str, None, str]:
        yield "first"
        return "last"

    async def main() -> None:
        pool = BoundedPool(1, 2, 2, Full)
        steps = pool.steps("ann", work())
        assert await anext(steps) == "first"
        async with anyio.create_task_group() as group:
            last = asyncio.ensure_future(anext(steps))
            await anyio.wait_all_tasks_blocked()
            group.start_soon(pool.run, "ben", other)
            assert await last == "last"
            with pytest.raises(StopAsyncIteration), anyio.fail_after(30):
                await anext(steps)
            assert not other.done
            other.go.set()

    run(main)
