"""How long one waits, from takes that a test lets pass."""

import pytest

from studio.speed import CHARACTERS_PER_SECOND, RECENT, SpeedEstimator, TakeTiming


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def estimator(time: Time) -> SpeedEstimator:
    return SpeedEstimator(time)


def take(estimator: SpeedEstimator, time: Time, seconds: float, real_time_factor: float) -> None:
    timing = begin(estimator, seconds)
    timing.spoken = seconds
    time.now += seconds * real_time_factor
    estimator.end(timing)


def begin(estimator: SpeedEstimator, seconds: float) -> TakeTiming:
    return estimator.begin(round(seconds * CHARACTERS_PER_SECOND))


def test_the_factor_is_the_usual_one_of_the_last_takes(estimator: SpeedEstimator, time: Time) -> None:
    assert estimator.real_time_factor is None
    for real_time_factor in (0.5, 0.4, 9.0):
        take(estimator, time, 10, real_time_factor)
    assert estimator.real_time_factor == pytest.approx(0.5), "one that was slow says little"
    for _ in range(RECENT):
        take(estimator, time, 10, 2)
    assert estimator.real_time_factor == pytest.approx(2)
    estimator.reset()
    assert estimator.real_time_factor is None


def test_takes_of_which_nothing_was_spoken_say_nothing(estimator: SpeedEstimator, time: Time) -> None:
    timing = begin(estimator, 10)
    time.now += 5
    estimator.end(timing)
    estimator.end(timing)
    assert estimator.real_time_factor is None
    assert estimator.wait_seconds(1) == 0


def test_with_a_slot_free_nobody_waits(estimator: SpeedEstimator) -> None:
    begin(estimator, 10)
    assert estimator.wait_seconds(2) == 0


def test_nobody_knows_before_anything_was_spoken(estimator: SpeedEstimator) -> None:
    begin(estimator, 10)
    assert estimator.wait_seconds(1) is None


def test_the_wait_is_what_is_left_of_the_take_that_ends_first(estimator: SpeedEstimator, time: Time) -> None:
    slow, quick = begin(estimator, 20), begin(estimator, 10)
    time.now, slow.spoken, quick.spoken = 8, 4, 8
    assert estimator.wait_seconds(2) == pytest.approx(2), "two of its ten seconds are left, at real time"
    estimator.end(quick)
    assert estimator.wait_seconds(1) == pytest.approx(32), "sixteen are left of the other, twice as slow"


def test_who_waits_already_comes_first(estimator: SpeedEstimator, time: Time) -> None:
    take(estimator, time, 10, 0.5)
    for seconds in (10, 20, 10):
        time.now += 1e-9
        begin(estimator, seconds)
    assert [estimator.wait_seconds(1, before) for before in range(3)] == pytest.approx([5, 15, 20])
    assert [estimator.wait_seconds(2, before) for before in range(2)] == pytest.approx([5, 10])
    assert estimator.wait_seconds(1) == estimator.wait_seconds(1, 2), "who comes now comes after all of them"


def test_a_take_longer_than_expected_is_not_over_yet(estimator: SpeedEstimator, time: Time) -> None:
    timing = begin(estimator, 10)
    time.now = timing.spoken = 30
    wait_seconds = estimator.wait_seconds(1)
    assert wait_seconds is not None
    assert 0 < wait_seconds < 10


def test_more_takes_than_slots_wait_among_themselves(estimator: SpeedEstimator, time: Time) -> None:
    """An engine's own queue: they have begun, and are not spoken yet."""
    take(estimator, time, 10, 1)
    for _ in range(3):
        begin(estimator, 10)
    assert estimator.wait_seconds(1) == pytest.approx(30)
