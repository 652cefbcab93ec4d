"""Coroutines of tests, run where no event loop is: Playwright keeps one going in the tests' own thread."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Callable[..., Awaitable[T]], *inputs: Any) -> T:
    """What `work(*inputs)` returns or raises."""

    async def main() -> T:
        return await work(*inputs)

    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, main()).result()
