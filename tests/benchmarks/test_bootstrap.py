"""Confidence intervals of benchmark results."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.bootstrap import estimate, mean


def test_interval_of_a_mean_matches_normal_approximation() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, 400).tolist()
    found = estimate(values, mean)
    half = 1.96 * np.std(values) / np.sqrt(len(values))
    assert found.value == pytest.approx(np.mean(values))
    assert found.high - found.value == pytest.approx(half, rel=0.15)
    assert found.value - found.low == pytest.approx(half, rel=0.15)


def test_interval_covers_the_true_mean_at_its_level() -> None:
    random = np.random.default_rng(2)
    covered = 0
    for _ in range(30):
        found = estimate(random.normal(0.0, 1.0, 40).tolist(), mean)
        covered += found.low <= 0.0 <= found.high
    assert covered >= 26


def test_bootstrap_resamples_whole_groups() -> None:
    """Ten copies of each of four values give the same interval as the four values."""
    values = [0.0, 1.0, 2.0, 3.0]
    copies = [value for value in values for _ in range(10)]
    alone, grouped = estimate(values, mean), estimate(copies, mean, group=lambda value: value)
    assert (grouped.items, grouped.groups) == (40, 4)
    assert (grouped.low, grouped.high) == (alone.low, alone.high)
    naive = estimate(copies, mean)
    assert naive.high - naive.low < (grouped.high - grouped.low) / 2


def test_estimate_is_deterministic() -> None:
    assert estimate([1.0, 2.0, 4.0], mean) == estimate([1.0, 2.0, 4.0], mean)


def test_undefined_resamples_are_ignored() -> None:
    def undefined_if_constant(items: Sequence[float]) -> float:
        return float("nan") if len(set(items)) == 1 else 1.0

    found = estimate([1.0, 2.0], undefined_if_constant)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_empty_sample_is_rejected() -> None:
    with pytest.raises(ValueError, match="nothing"):
        estimate([], mean)


def test_json_has_rounded_values_and_sample_sizes() -> None:
    assert estimate([0.5, 0.5], mean).json() == {
        "value": 0.5,
        "interval_95": [0.5, 0.5],
        "items": 2,
        "groups": 2,
    }


def test_a_single_group_has_no_interval() -> None:
    found = estimate([0.0, 1.0, 1.0], mean, group=lambda _: "the only voice")
    assert (found.items, found.groups, found.has_interval) == (3, 1, False)
    assert str(found) == "0.667"
    assert found.json() == {"value": 0.6667, "interval_95": None, "items": 3, "groups": 1}
    assert estimate([1.0], mean).json()["interval_95"] is None
