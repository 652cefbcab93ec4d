"""The growth measurement detects quadratic functions and accepts linear ones."""

import pytest

from tests.support import linear as linear_growth
from tests.support.linear import LEAST, assert_linear, faults, repeated


def linear(text: str) -> int:
    return sum(map(ord, text))


def quadratic(text: str) -> int:
    return sum(1 for _ in range(len(text) ** 2 // 4_000))


def test_linear_function_passes() -> None:
    assert_linear(linear, repeated("ab"), 2_000_000)


def test_quadratic_function_is_detected() -> None:
    assert "times as long" in faults(quadratic, repeated("ab"), 256_000, limit=1e9, doublings=4)[0]


def test_single_fast_measurement_is_not_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """One size is fast once, so that the next seems to grow too fast."""
    times = iter([0.1, 0.05, 0.4, 0.1, 0.2, 0.4])
    monkeypatch.setattr(linear_growth, "seconds", lambda function, given: next(times))
    assert faults(linear, repeated("ab"), 4_000, limit=2.0) == []


def test_slow_function_is_detected_before_the_largest_size() -> None:
    tried: list[int] = []
    with pytest.raises(AssertionError, match="all there is"):
        assert_linear(lambda text: tried.append(len(text)) or quadratic(text), repeated("ab"), 64_000, limit=LEAST / 10)
    assert max(tried) < 64_000


def test_repeated_texts_have_the_requested_length() -> None:
    assert repeated("abc")(7) == "abcabca"
