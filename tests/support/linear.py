"""Whether the time that a function takes grows with the length of what it is given, or faster.

Counted is the processor's time of this thread without garbage collections, whose time grows with what other tests have
left; other programs on the machine matter little. What seems to grow too fast is measured again from the smallest size
on before it counts: a ratio is also too large when the smaller time was a lucky one.
"""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

GROWTH = 3.0  # times as long for twice as much: 2 is linear, 4 quadratic
LEAST = 0.02  # seconds; less is noise
_TIMES = 3  # a fault is one when each of so many measurements finds it


def seconds(function: Callable[[T], object], given: T) -> float:
    """The processor's time that one call takes."""
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
    """Why a function's time is not linear, or too long; no sentence where it is neither.

    Args:
        function: what is measured; what it raises is the caller's to catch.
        make: what it is given, of a size.
        largest: the largest accepted size; measured are also its half, and so on. The smaller come first, so that a
            quadratic function is found out before it takes minutes.
        limit: seconds for the largest.
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
    """Fails with a sentence when `faults` finds one."""
    found = faults(function, make, largest, limit=limit)
    assert not found, found[0]


def repeated(unit: str) -> Callable[[int], str]:
    """Texts of any length that are one piece over and over."""
    return lambda size: (unit * (size // len(unit) + 1))[:size]
