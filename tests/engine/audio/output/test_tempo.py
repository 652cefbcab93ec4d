"""Changed tempo has the exact length, keeps the pitch, and loses nothing at the end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.audio.output.tempo import ReplaceableTempo, change_tempo

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


@pytest.mark.parametrize("speed", [0.5, 0.9, 1.3, 2.0])
def test_stream_in_parts_equals_the_whole(speed: float) -> None:
    samples, tempo = tone(1, 220), ReplaceableTempo(RATE, speed)
    made: list[NDArray[np.int16]] = []
    for start in range(0, len(samples), 743):
        part, begin = tempo.change(samples[start : start + 743], start)
        assert begin == sum(len(each) for each in made)
        made.append(part)
    made.append(tempo.finish())
    np.testing.assert_array_equal(np.concatenate(made), change_tempo(samples, RATE, speed))
    assert tempo.length == round(len(samples) / speed)


@settings(deadline=None)
@given(st.sampled_from([0.5, 0.75, 1.4, 2.0]), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4_000)), max_size=6))
def test_replaced_stream_has_the_length_of_what_is_left(speed: float, parts: list[tuple[float, int]]) -> None:
    tempo, end, made = ReplaceableTempo(RATE, speed), 0, 0
    for back, count in parts:
        start = round(end * back)
        part, begin = tempo.change(tone(0.25, 200)[:count], start)
        assert begin <= made
        assert begin <= round(start / speed) + 1
        end, made = start + count, begin + len(part)
    made += len(tempo.finish())
    assert abs(made - round(end / speed)) <= 1 + len(parts)
    assert tempo.length == made


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.5])
def test_replaced_stream_keeps_what_comes_before(speed: float) -> None:
    """The filter holds back some of it when the replacement comes."""
    before, after = tone(0.5, 220), tone(0.5, 440)
    tempo, take = ReplaceableTempo(RATE, speed), np.zeros(0, np.int16)
    wrong = tone(0.002, 880)
    for samples, start in ((before, 0), (wrong, len(before)), (after, len(before))):
        part, begin = tempo.change(samples, start)
        take = np.concatenate([take[:begin], part])
    take = np.concatenate([take, tempo.finish()])
    cut = round(len(before) / speed)
    edge = 200  # samples whose overlap depends on what follows
    np.testing.assert_array_equal(take[: cut - edge], change_tempo(before, RATE, speed)[: cut - edge])
    np.testing.assert_array_equal(take[cut:], change_tempo(after, RATE, speed))
