"""Check that the running time of a function is linear in the length of its input.

Measured is the processor time of this thread, without garbage collections, whose time depends on the objects of other
tests. Growth that seems too fast is measured again from the smallest size before it counts, because the ratio is also
too large if the smaller time was low by chance.
"""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

GROWTH = 3.0  # factor for a doubled size: 2 is linear, 4 quadratic
LEAST = 0.02  # seconds; less is noise
_TIMES = 3  # measurements that must all find a fault


def seconds(function: Callable[[T], object], given: T) -> float:
    """Return the processor time of one call."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        start = time.thread_time()
        function(given)
        return time.thread_time() - start
    finally:
        if collecting:
            gc.enable()


def faults(
    function: Callable[[T], object],
    make: Callable[[int], T],
    largest: int,
    *,
    limit: float,
    growth: float = GROWTH,
    doublings: int = 2,
) -> list[str]:
    """Return sentences that describe nonlinear or too long running time; empty if there is neither.

    Args:
        function: the function to measure. Its exceptions are not caught.
        make: returns an input of a given size.
        largest: the largest accepted size. Its half, quarter and so on are measured first, so that a quadratic
            function is found before it takes minutes.
        limit: seconds for the largest size.
    """
    sizes = [largest >> step for step in range(doublings, -1, -1)]
    found: list[str] = []
    for _ in range(_TIMES):
        if not (found := _faults(function, make, sizes, limit, growth)):
            break
    return found


def _faults(
    function: Callable[[T], object], make: Callable[[int], T], sizes: list[int], limit: float, growth: float
) -> list[str]:
    before = 0.0
    for size in sizes:
        took = seconds(function, make(size))
        if took > limit:
            return [f"{took:.2f} s for {size:,}, and {limit:.2f} s is all there is for {sizes[-1]:,}"]
        if before and took > growth * max(before, LEAST):
            return [f"{took:.2f} s for {size:,}, {took / max(before, 1e-9):.1f} times as long as for half of it"]
        before = max(took, 1e-9)
    return []


def assert_linear(
    function: Callable[[T], object], make: Callable[[int], T], largest: int, *, limit: float = 2.0
) -> None:
    """Fail with the first sentence of `faults`, if any."""
    found = faults(function, make, largest, limit=limit)
    assert not found, found[0]


def repeated(unit: str) -> Callable[[int], str]:
    """Return a function that repeats `unit` to a given length."""
    return lambda size: (unit * (size // len(unit) + 1))[:size]
