"""Pitch of tones with known pitch, and statistics of pairs of pitches."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.judges import pitch

RATE = 22_050


def buzz(f0: float, seconds: float = 0.6) -> NDArray[np.float32]:
    """Return a sawtooth-like tone of ten falling harmonics."""
    time = np.arange(int(seconds * RATE)) / RATE
    wave = sum(np.sin(2 * np.pi * f0 * n * time) / n for n in range(1, 11))
    return (0.2 * np.asarray(wave)).astype(np.float32)


@pytest.mark.parametrize("f0", [70.0, 110.0, 217.0, 390.0])
def test_pitch_of_a_tone_is_tracked(f0: float) -> None:
    pytest.importorskip("pyworld")
    assert pitch.median(pitch.track(buzz(f0), RATE)) == pytest.approx(f0, rel=0.01)


def test_silence_and_near_silence_have_no_pitch() -> None:
    pytest.importorskip("pyworld")
    quiet = buzz(110.0) * 1e-3
    found = pitch.track(np.concatenate([buzz(220.0), quiet]), RATE)
    assert pitch.median(found) == pytest.approx(220.0, rel=0.01)
    assert not (found[int(0.65 / 0.005) :] > 0).any()
    assert math.isnan(pitch.median(pitch.track(np.zeros(RATE, dtype=np.float32), RATE)))


def test_median_needs_fifty_milliseconds() -> None:
    assert math.isnan(pitch.median(np.array([100.0] * 9 + [0.0] * 50)))
    assert pitch.median(np.array([90.0, 100.0, 110.0] * 4 + [0.0])) == 100.0


def test_pitch_that_follows_the_reference_correlates() -> None:
    follows = [(f0, 1.5 * f0) for f0 in (80.0, 120.0, 200.0)]
    assert pitch.correlation(follows) == pytest.approx(1)
    assert pitch.correlation([(f0, 1 / f0) for f0, _ in follows]) == pytest.approx(-1)
    assert pitch.median_semitones_off(follows) == pytest.approx(12 * math.log2(1.5))


def test_correlation_of_constant_or_few_pitches_is_undefined() -> None:
    assert math.isnan(pitch.correlation([(80.0, 120.0), (120.0, 120.0), (200.0, 120.0)]))
    assert math.isnan(pitch.correlation([(80.0, 80.0), (120.0, 120.0)]))


def test_utterances_without_pitch_are_ignored() -> None:
    known = [(80.0, 82.0), (120.0, 125.0), (200.0, 190.0)]
    assert pitch.correlation([*known, (math.nan, 100.0), (0.0, 90.0)]) == pitch.correlation(known)
    assert pitch.median_semitones_off([(100.0, 200.0), (100.0, math.nan)]) == pytest.approx(12)
    assert math.isnan(pitch.median_semitones_off([]))


def test_gross_errors_compare_frames_voiced_in_both() -> None:
    original = np.array([0.0, 100.0, 110.0, 120.0, 0.0, 130.0])
    copy = np.array([90.0, 119.0, 0.0, 60.0, 90.0])
    assert pitch.gross_errors(original, copy) == 0.5
    assert pitch.gross_errors(original, original) == 0.0
    assert math.isnan(pitch.gross_errors(original, np.zeros(6)))
