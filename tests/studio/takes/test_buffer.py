import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.audio import to_int16
from engine.errors import InvalidOption
from engine.options import SpeakOptions
from engine.outputs import AudioChunk, WordTime
from studio.takes.buffer import TakeBuffer
from studio.takes.requests import TakeRequest, UnfinishedTake


def chunk(samples: np.ndarray, start: int) -> AudioChunk:
    return AudioChunk(samples.astype(np.float32), start, 1, 0.1, 0, 1, "text")


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30)), max_size=20))
def test_chunk_with_an_earlier_start_replaces_later_samples(parts: list[tuple[float, int]]) -> None:
    take, expected = TakeBuffer(8_000), np.zeros(0, np.float32)
    for number, (back, count) in enumerate(parts, 1):
        start = round(len(expected) * back)
        samples = np.arange(number, number + count, dtype=np.float32) / 100
        expected = np.concatenate([expected[:start], samples])
        take.add(chunk(samples, start))
    assert take.length == len(expected)
    np.testing.assert_array_equal(take.samples(), to_int16(expected))


def test_file_contains_exactly_the_sent_samples() -> None:
    take = TakeBuffer(22_050)
    sent = [take.add(chunk(np.sin(np.arange(700) / 9 + i) * 0.9, i * 700)) for i in range(3)]
    samples, rate = soundfile.read(io.BytesIO(take.encode("wav")), dtype="int16")
    assert rate == 22_050
    np.testing.assert_array_equal(samples, np.concatenate(sent))
    # The player reads the samples after a header of 44 bytes.
    assert take.encode("wav")[44:] == np.concatenate(sent).astype("<i2").tobytes()


def test_flac_and_unknown_formats() -> None:
    take = TakeBuffer(22_050)
    take.add(chunk(np.zeros(22_050), 0))
    assert take.encode("flac")[:4] == b"fLaC"
    with pytest.raises(InvalidOption):
        take.encode("aiff")  # type: ignore[arg-type]


def test_finished_take_has_word_times() -> None:
    buffer = TakeBuffer(22_050, text="Learn SQL.")
    buffer.add(chunk(np.ones(22_050) / 2, 0))
    words = (WordTime("Learn", 0.1, 0.4, 0, 0), WordTime("sequel.", 0.4, 0.9, 0, 6))
    buffer.add(replace(chunk(np.zeros(0), 22_050), words=words))
    request, speech = TakeRequest("Learn SQL.", "f" * 32, SpeakOptions()), SimpleNamespace(seed=1)
    spoken = UnfinishedTake(request, "A", speech, buffer).finish("m", None)  # type: ignore[arg-type]
    assert (spoken.text, spoken.words) == ("Learn SQL.", ((0, 5, 0.1, 0.4), (6, 10, 0.4, 0.9)))


def test_take_at_a_speed_has_the_length_and_word_times_of_that_speed() -> None:
    take = TakeBuffer(8_000, text="Learn it.", speed=1.6)
    sent = [take.add(chunk(np.sin(np.arange(800) / 9) / 2, start)) for start in range(0, 8_000, 800)]
    words = (WordTime("Learn", 0.16, 0.48, 0, 0), WordTime("it.", 0.48, 0.8, 0, 6))
    take.add(replace(chunk(np.zeros(0), 8_000), words=words))
    assert len(np.concatenate(sent)) < 5_000, "the end is held back"
    sent.append(take.finish())
    np.testing.assert_array_equal(take.samples(), np.concatenate(sent))
    assert (take.length, take.seconds, take.spoken_seconds) == (5_000, 0.625, 1.0)
    assert take.words == [
        (0, 5, pytest.approx(0.1), pytest.approx(0.3)),
        (6, 9, pytest.approx(0.3), pytest.approx(0.5)),
    ]


def test_take_at_a_speed_that_ends_early_is_stored_with_its_last_samples() -> None:
    buffer = TakeBuffer(8_000, speed=1.6)
    buffer.add(chunk(np.sin(np.arange(8_000) / 9) / 2, 0))
    request, speech = TakeRequest("One.", "f" * 32, SpeakOptions(), speed=1.6), SimpleNamespace(seed=1)
    unfinished = UnfinishedTake(request, "A", speech, buffer)  # type: ignore[arg-type]
    assert unfinished.finish("m", None, "error").duration == 0.625
    assert len(buffer.finish()) == 0, "nothing is left"


def test_take_at_a_speed_can_be_replaced_from_a_sample_on() -> None:
    take = TakeBuffer(8_000, speed=0.8)
    take.add(chunk(np.ones(4_000) / 2, 0))
    take.add(chunk(np.ones(2_000) / 4, 4_000))
    take.add(chunk(np.ones(3_000) / 8, 4_000))
    take.finish()
    assert take.length == round(7_000 / 0.8)
    values = np.abs(take.samples()[5_100:8_600] / 32_768 - 0.125)
    assert values.max() < 0.01, "nothing of the replaced chunk is left"
