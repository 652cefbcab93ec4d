"""The learning rate rises during the warm-up, and falls by a cosine to its final value."""

from itertools import pairwise

import pytest

from training.schedule import warmup_cosine


def test_rate_rises_to_the_peak_and_falls_to_the_final_rate() -> None:
    rates = [warmup_cosine(step, 10, step / 1000, final=0.1) for step in range(1000)]
    assert rates[0] == pytest.approx(0.1, abs=1e-3)
    assert rates.index(max(rates)) in (9, 10)
    assert max(rates) == pytest.approx(1, abs=1e-3)
    assert warmup_cosine(500, 10, 0.5, final=0.1) == pytest.approx(0.55)
    assert all(later < earlier for earlier, later in pairwise(rates[10:]))
    assert warmup_cosine(1000, 10, 1.0, final=0.1) == warmup_cosine(1200, 10, 1.2, final=0.1) == pytest.approx(0.1)
    assert warmup_cosine(1000, 10, 1.0) == pytest.approx(0)
