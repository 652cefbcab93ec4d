"""Whether the time that a function takes grows with the length of what it is given, or faster.

Counted is the processor's time of this thread without garbage collections, whose time grows with what other tests have
left; other programs on the machine matter little. A ratio that is too large is measured again before it counts.
"""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

GROWTH = 3.0  # times as long for twice as much: 2 is linear, 4 quadratic
LEAST = 0.02  # seconds; less is noise
_AGAIN = 2  # more measurements of what seems to grow too fast


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
    before = 0.0
    for size in (largest >> step for step in range(doublings, -1, -1)):
        given = make(size)
        took = seconds(function, given)
        allowed = min(limit, growth * max(before, LEAST)) if before else limit
        for _ in range(_AGAIN):
            if took > allowed:
                took = min(took, seconds(function, given))
        if took > limit:
            return [f"{took:.2f} s for {size:,}, and {limit:.2f} s is all there is for {largest:,}"]
        if took > allowed:
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
