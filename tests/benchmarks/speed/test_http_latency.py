"""The ways of a request are timed in turns, and compared request by request."""

import pytest

from benchmarks.speed.http_latency import FORMATS, figures, in_turns, table


def test_each_way_comes_first_in_every_other_run() -> None:
    order: list[tuple[str, int]] = []

    def inside(seed: int) -> float:
        order.append(("process", seed))
        return 1.0 + seed

    def outside(seed: int) -> float:
        order.append(("http", seed))
        return 2.0 + 2 * seed

    pairs = in_turns(inside, outside, 3)
    assert pairs == [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]
    firsts, seconds = order[0::2], order[1::2]
    assert [way for way, _ in firsts] == ["process", "http", "process", "http", "process"]
    assert [seed for _, seed in firsts] == [seed for _, seed in seconds] == [0, 1, 0, 1, 2]
    assert all(first != second for first, second in zip(firsts, seconds, strict=True))


def test_added_is_the_difference_of_the_same_request() -> None:
    found = figures([(0.1, 0.12), (0.3, 0.31), (0.2, 0.25)])
    assert found["added"] == {"median": pytest.approx(0.02), "worst": pytest.approx(0.05)}
    assert (found["process"]["median"], found["http"]["worst"]) == (0.2, 0.31)
    made = table({"formats": dict.fromkeys(FORMATS, found), "runs": 3})
    assert made.rows[0] == ["mp3", 200, 250, pytest.approx(20), pytest.approx(50)]
