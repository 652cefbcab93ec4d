"""Confidence intervals of the benchmarks' figures."""

import numpy as np
import pytest

from benchmarks.bootstrap import estimate, mean


def test_the_interval_of_a_mean_is_the_textbook_s() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, 400).tolist()
    found = estimate(values, mean)
    half = 1.96 * np.std(values) / np.sqrt(len(values))
    assert found.value == pytest.approx(np.mean(values))
    assert found.high - found.value == pytest.approx(half, rel=0.15)
    assert found.value - found.low == pytest.approx(half, rel=0.15)


def test_it_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(2)
    covered = 0
    for _ in range(60):
        found = estimate(random.normal(0.0, 1.0, 40).tolist(), mean)
        covered += found.low <= 0.0 <= found.high
    assert covered >= 51


def test_whole_groups_are_drawn() -> None:
    """Ten copies of each of four values say no more than the four values."""
    values = [0.0, 1.0, 2.0, 3.0]
    copies = [value for value in values for _ in range(10)]
    alone, grouped = estimate(values, mean), estimate(copies, mean, group=lambda value: value)
    assert (grouped.items, grouped.groups) == (40, 4)
    assert (grouped.low, grouped.high) == (alone.low, alone.high)
    naive = estimate(copies, mean)
    assert naive.high - naive.low < (grouped.high - grouped.low) / 2


def test_it_is_the_same_every_time() -> None:
    assert estimate([1.0, 2.0, 4.0], mean) == estimate([1.0, 2.0, 4.0], mean)


def test_draws_without_a_figure_are_left_out() -> None:
    def undefined_when_all_alike(items: list[float]) -> float:
        return float("nan") if len(set(items)) == 1 else 1.0

    found = estimate([1.0, 2.0], undefined_when_all_alike)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_nothing_cannot_be_estimated() -> None:
    with pytest.raises(ValueError, match="nothing"):
        estimate([], mean)


def test_json_rounds_and_tells_on_what_it_stands() -> None:
    assert estimate([0.5, 0.5], mean).json() == {
        "value": 0.5,
        "interval_95": [0.5, 0.5],
        "items": 2,
        "groups": 2,
    }
