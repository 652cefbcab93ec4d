"""Bootstrap confidence intervals (Efron & Tibshirani, An Introduction to the Bootstrap)."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")
_DRAWS = 2000


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % confidence interval and the numbers of items and groups.

    low, high: nan where there is no interval.
    """

    value: float
    low: float
    high: float
    items: int
    groups: int

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.low)

    def __str__(self) -> str:
        return f"{self.value:.3f}" + (f" ({self.low:.2f}–{self.high:.2f})" if self.has_interval else "")

    def json(self) -> dict[str, Any]:
        """Return plain JSON values, rounded to four digits; without an interval, it is None."""
        return {
            "value": round(self.value, 4),
            "interval_95": [round(self.low, 4), round(self.high, 4)] if self.has_interval else None,
            "items": self.items,
            "groups": self.groups,
        }


def estimate(
    items: Sequence[Item],
    statistic: Callable[[Sequence[Item]], float],
    group: Callable[[Item], Hashable] | None = None,
) -> Estimate:
    """Compute the statistic of all items, with the percentile interval over 2,000 draws with replacement.

    With `group`, whole groups are drawn. Utterances of one voice are correlated, so treating them as independent would
    make the interval too narrow. Draws whose statistic is not finite are ignored. A single group says nothing about
    others, so its estimate has no interval. Raises ValueError when there are no items.
    """
    if not items:
        raise ValueError("there is nothing to estimate from")
    parts = _grouped(items, group)
    low, high = _interval(parts, statistic) if len(parts) > 1 else (math.nan, math.nan)
    return Estimate(float(statistic(items)), low, high, len(items), len(parts))


def _interval(parts: Sequence[Sequence[Item]], statistic: Callable[[Sequence[Item]], float]) -> tuple[float, float]:
    """Return the percentiles of the statistic; nan when no draw has a finite one."""
    random = np.random.default_rng(0)
    draws = []
    for _ in range(_DRAWS):
        chosen = random.integers(len(parts), size=len(parts))
        draws.append(statistic([item for index in chosen for item in parts[index]]))
    finite = np.asarray(draws)[np.isfinite(draws)]
    low, high = np.percentile(finite, [2.5, 97.5]) if len(finite) else (np.nan, np.nan)
    return float(low), float(high)


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, as a statistic for `estimate`."""
    return float(np.mean(values))


def _grouped(items: Sequence[Item], group: Callable[[Item], Hashable] | None) -> list[list[Item]]:
    if group is None:
        return [[item] for item in items]
    parts: dict[Hashable, list[Item]] = {}
    for item in items:
        parts.setdefault(group(item), []).append(item)
    return list(parts.values())
