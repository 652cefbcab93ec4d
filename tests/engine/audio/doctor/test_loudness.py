"""The loudness meter against the test signals of ITU-R BS.1770 and EBU Tech 3341."""

import math

import numpy as np
import pytest

from engine.audio.doctor.loudness import clip_loudness, integrated_loudness
from tests.support.damaged_speech import RATE, Samples, pause


def test_integrated_loudness_matches_reference_signals() -> None:
    """A full-scale sine of 997 Hz has -3.01 LUFS in one channel. Gating follows EBU Tech 3341, cases 1 and 3 to 5,
    which use two channels and so measure 3.01 LU more."""

    def sine(*parts: tuple[float, float]) -> Samples:
        pieces = [
            10 ** (decibels / 20) * np.sin(2 * np.pi * 997 / 48_000 * np.arange(int(seconds * 48_000)))
            for decibels, seconds in parts
        ]
        return np.concatenate(pieces).astype(np.float32)

    assert integrated_loudness(sine((0, 3)), 48_000) == pytest.approx(-3.01, abs=0.01)
    cases = (
        [(-23, 20)],
        [(-36, 10), (-23, 60), (-36, 10)],
        [(-72, 10), (-36, 10), (-23, 60), (-36, 10), (-72, 10)],
        [(-26, 20), (-20, 20.1), (-26, 20)],
    )
    for parts in cases:
        assert integrated_loudness(sine(*parts), 48_000) == pytest.approx(-23 - 3.01, abs=0.1)
    assert integrated_loudness(pause(1), RATE) == -math.inf
    assert integrated_loudness(sine((-80, 1)), 48_000) == -math.inf
    assert clip_loudness(sine((-80, 1)), 48_000) == pytest.approx(-83.01, abs=0.01)
