"""Bootstrap confidence intervals (Efron & Tibshirani, An Introduction to the Bootstrap)."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")
_DRAWS = 2000


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % confidence interval and the numbers of items and groups."""

    value: float
    low: float
    high: float
    items: int
    groups: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.2f}–{self.high:.2f})"

    def json(self) -> dict[str, Any]:
        """Return plain JSON values, rounded to four digits."""
        return {
            "value": round(self.value, 4),
            "interval_95": [round(self.low, 4), round(self.high, 4)],
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
    make the interval too narrow. Draws whose statistic is not finite are ignored. Raises ValueError when there are no
    items.
    """
    if not items:
        raise ValueError("there is nothing to estimate from")
    parts = _grouped(items, group)
    random = np.random.default_rng(0)
    draws = []
    for _ in range(_DRAWS):
        chosen = random.integers(len(parts), size=len(parts))
        draws.append(statistic([item for index in chosen for item in parts[index]]))
    finite = np.asarray(draws)[np.isfinite(draws)]
    low, high = np.percentile(finite, [2.5, 97.5]) if len(finite) else (np.nan, np.nan)
    return Estimate(float(statistic(items)), float(low), float(high), len(items), len(parts))


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
