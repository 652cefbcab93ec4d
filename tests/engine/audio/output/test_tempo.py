"""`change_tempo` gives the exact length, keeps the pitch, and loses nothing at the end."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.audio.output.tempo import change_tempo

RATE = 16_000


def tone(seconds: float, hertz: float) -> NDArray[np.int16]:
    times = np.arange(round(seconds * RATE)) / RATE
    return (8_000 * np.sin(2 * np.pi * hertz * times)).astype(np.int16)


@pytest.mark.parametrize("speed", [0.5, 0.65, 0.95, 1.0, 1.05, 1.25, 1.99, 2.0])
@pytest.mark.parametrize("length", [0, 1, 7, 999, 16_001])
def test_changed_tempo_has_exact_length(speed: float, length: int) -> None:
    assert len(change_tempo(tone(2, 200)[:length], RATE, speed)) == round(length / speed)


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.25, 2.0])
def test_changed_tempo_keeps_pitch_and_end(speed: float) -> None:
    changed = change_tempo(np.concatenate([tone(1, 220), tone(0.5, 440)]), RATE, speed)
    first = changed[: round(RATE * 0.9 / speed)]
    loudest = np.abs(np.fft.rfft(first * np.hanning(len(first)))).argmax() * RATE / len(first)
    assert loudest == pytest.approx(220, abs=3)
    last = changed[-round(RATE * 0.3 / speed) :]
    assert np.abs(np.fft.rfft(last * np.hanning(len(last)))).argmax() * RATE / len(last) == pytest.approx(440, abs=6)


def test_speed_one_returns_the_same_array() -> None:
    samples = tone(0.1, 300)
    assert change_tempo(samples, RATE, 1.0) is samples
