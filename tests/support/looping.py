"""Run coroutines in a thread without an event loop; Playwright keeps one running in the tests' main thread."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Callable[..., Awaitable[T]], *inputs: Any) -> T:
    """Return or raise the result of `work(*inputs)`."""

    async def main() -> T:
        return await work(*inputs)

    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, main()).result()
