"""How long one waits, from takes that a test lets pass."""

import pytest

from studio.pace import CHARACTERS_PER_SECOND, RECENT, Pace, Run


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pace(time: Time) -> Pace:
    return Pace(time)


def take(pace: Pace, time: Time, seconds: float, factor: float) -> None:
    run = begin(pace, seconds)
    run.spoken = seconds
    time.now += seconds * factor
    pace.end(run)


def begin(pace: Pace, seconds: float) -> Run:
    return pace.begin(round(seconds * CHARACTERS_PER_SECOND))


def test_the_factor_is_the_usual_one_of_the_last_takes(pace: Pace, time: Time) -> None:
    assert pace.factor is None
    for factor in (0.5, 0.4, 9.0):
        take(pace, time, 10, factor)
    assert pace.factor == pytest.approx(0.5), "one that was slow says little"
    for _ in range(RECENT):
        take(pace, time, 10, 2)
    assert pace.factor == pytest.approx(2)
    pace.forget()
    assert pace.factor is None


def test_takes_of_which_nothing_was_spoken_say_nothing(pace: Pace, time: Time) -> None:
    run = begin(pace, 10)
    time.now += 5
    pace.end(run)
    pace.end(run)
    assert pace.factor is None
    assert pace.wait(1) == 0


def test_with_a_slot_free_nobody_waits(pace: Pace) -> None:
    begin(pace, 10)
    assert pace.wait(2) == 0


def test_nobody_knows_before_anything_was_spoken(pace: Pace) -> None:
    begin(pace, 10)
    assert pace.wait(1) is None


def test_the_wait_is_what_is_left_of_the_take_that_ends_first(pace: Pace, time: Time) -> None:
    slow, quick = begin(pace, 20), begin(pace, 10)
    time.now, slow.spoken, quick.spoken = 8, 4, 8
    assert pace.wait(2) == pytest.approx(2), "two of its ten seconds are left, at real time"
    pace.end(quick)
    assert pace.wait(1) == pytest.approx(32), "sixteen are left of the other, twice as slow"


def test_who_waits_already_comes_first(pace: Pace, time: Time) -> None:
    take(pace, time, 10, 0.5)
    for seconds in (10, 20, 10):
        time.now += 1e-9
        begin(pace, seconds)
    assert [pace.wait(1, before) for before in range(3)] == pytest.approx([5, 15, 20])
    assert [pace.wait(2, before) for before in range(2)] == pytest.approx([5, 10])
    assert pace.wait(1) == pace.wait(1, 2), "who comes now comes after all of them"


def test_a_take_longer_than_expected_is_not_over_yet(pace: Pace, time: Time) -> None:
    run = begin(pace, 10)
    time.now = run.spoken = 30
    wait = pace.wait(1)
    assert wait is not None
    assert 0 < wait < 10


def test_more_takes_than_slots_wait_among_themselves(pace: Pace, time: Time) -> None:
    """An engine's own queue: they have begun, and are not spoken yet."""
    take(pace, time, 10, 1)
    for _ in range(3):
        begin(pace, 10)
    assert pace.wait(1) == pytest.approx(30)
