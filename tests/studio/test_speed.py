"""Estimates of waiting times, computed from takes on a settable clock."""

import pytest

from studio.speed import CHARACTERS_PER_SECOND, RECENT, SpeedEstimator, TakeTiming
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def estimator(clock: Clock) -> SpeedEstimator:
    return SpeedEstimator(clock)


def finish_take(estimator: SpeedEstimator, clock: Clock, seconds: float, real_time_factor: float) -> None:
    timing = begin(estimator, seconds)
    timing.spoken = seconds
    clock.now += seconds * real_time_factor
    estimator.end(timing)


def begin(estimator: SpeedEstimator, seconds: float) -> TakeTiming:
    return estimator.begin(round(seconds * CHARACTERS_PER_SECOND))


def test_real_time_factor_is_typical_of_recent_takes(estimator: SpeedEstimator, clock: Clock) -> None:
    assert estimator.real_time_factor is None
    for real_time_factor in (0.5, 0.4, 9.0):
        finish_take(estimator, clock, 10, real_time_factor)
    assert estimator.real_time_factor == pytest.approx(0.5), "the estimate is robust against one slow take"
    for _ in range(RECENT):
        finish_take(estimator, clock, 10, 2)
    assert estimator.real_time_factor == pytest.approx(2)
    estimator.reset()
    assert estimator.real_time_factor is None


def test_takes_without_audio_are_ignored(estimator: SpeedEstimator, clock: Clock) -> None:
    timing = begin(estimator, 10)
    clock.now += 5
    estimator.end(timing)
    estimator.end(timing)
    assert estimator.real_time_factor is None
    assert estimator.wait_seconds(1) == 0


def test_wait_is_zero_with_a_free_slot(estimator: SpeedEstimator) -> None:
    begin(estimator, 10)
    assert estimator.wait_seconds(2) == 0


def test_wait_is_unknown_before_the_first_audio(estimator: SpeedEstimator) -> None:
    begin(estimator, 10)
    assert estimator.wait_seconds(1) is None


def test_wait_is_the_remainder_of_the_take_that_ends_first(estimator: SpeedEstimator, clock: Clock) -> None:
    slow, quick = begin(estimator, 20), begin(estimator, 10)
    clock.now, slow.spoken, quick.spoken = 8, 4, 8
    assert estimator.wait_seconds(2) == pytest.approx(2), "two of its ten seconds remain, at real time"
    estimator.end(quick)
    assert estimator.wait_seconds(1) == pytest.approx(32), "sixteen seconds of the other remain, at half the speed"


def test_waiting_takes_are_counted_first(estimator: SpeedEstimator, clock: Clock) -> None:
    finish_take(estimator, clock, 10, 0.5)
    for seconds in (10, 20, 10):
        clock.now += 1e-9
        begin(estimator, seconds)
    assert [estimator.wait_seconds(1, before) for before in range(3)] == pytest.approx([5, 15, 20])
    assert [estimator.wait_seconds(2, before) for before in range(2)] == pytest.approx([5, 10])
    assert estimator.wait_seconds(1) == estimator.wait_seconds(1, 2), "a new take comes after all waiting ones"


def test_overdue_take_has_a_positive_wait(estimator: SpeedEstimator, clock: Clock) -> None:
    timing = begin(estimator, 10)
    clock.now = timing.spoken = 30
    wait_seconds = estimator.wait_seconds(1)
    assert wait_seconds is not None
    assert 0 < wait_seconds < 10


def test_takes_beyond_the_slots_are_added_to_the_wait(estimator: SpeedEstimator, clock: Clock) -> None:
    """Takes in the engine's own queue have begun but have no audio yet."""
    finish_take(estimator, clock, 10, 1)
    for _ in range(3):
        begin(estimator, 10)
    assert estimator.wait_seconds(1) == pytest.approx(30)
