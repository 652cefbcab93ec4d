"""Run coroutines in a thread without an event loop; Playwright keeps one running in the tests' main thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


def run(work: Callable[..., Awaitable[T]], *inputs: Any) -> T:
    """Return or raise the result of `work(*inputs)`."""

    async def main() -> T:
        return await work(*inputs)

    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, main()).result()


def run_beside_two(job: Callable[[], Awaitable[T]], go: threading.Event) -> list[T]:
    """Run a job while two of the same wait for `go`, which is then set. Returns the results, first that of the job."""
    results: list[T] = []

    async def kept() -> None:
        results.append(await job())

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(kept)
            await anyio.wait_all_tasks_blocked()
            await kept()
            go.set()

    run(main)
    return results
