"""Words heard up to a playback position."""

from dataclasses import replace

import numpy as np
import pytest

from engine.outputs import AudioChunk, WordTime
from studio.words.playback_position import PlaybackPosition, PlayedWords

RATE = 16_000


def bursts(*seconds: float) -> np.ndarray:
    """Return alternating silence and noise, beginning with silence."""
    noise = np.random.default_rng(0)
    parts = [
        (noise.uniform(-0.3, 0.3, round(length * RATE)) if number % 2 else np.zeros(round(length * RATE)))
        for number, length in enumerate(seconds)
    ]
    return np.concatenate(parts).astype(np.float32)


def chunk(samples: np.ndarray, start: int, segment: int, text: str) -> AudioChunk:
    return AudioChunk(samples, start, 1, 0.0, segment, segment + 1, text)


def test_words_are_aligned_to_sound_not_pauses() -> None:
    """Four words of equal length with pauses between them."""
    words = PlayedWords(RATE)
    samples = bursts(1.0, 0.3, 2.0, 0.3, 0.1, 0.6, 1.0)
    for start in range(0, len(samples), 5_000):
        words.add(chunk(samples[start : start + 5_000], start, 0, "Take, take take take."))
    words.finish()
    assert words.seconds == pytest.approx(5.3)
    heard = [words.until(moment).heard for moment in (0.0, 0.9, 1.1, 1.2, 1.35, 3.2, 3.6, 3.9, 4.2, 9.0)]
    assert heard == [
        "", "", "", "Take,", "Take,", "Take,", "Take, take", "Take, take take", "Take, take take take.",
        "Take, take take take.",
    ]  # fmt: skip
    assert words.until(1.35) == PlaybackPosition("Take,", "take take take.")


def test_segment_boundaries_are_exact() -> None:
    words = PlayedWords(RATE, speed=2.0)
    assert words.add(chunk(bursts(0, 1.0), 0, 0, "First one."))
    assert not words.add(chunk(bursts(0, 1.0), RATE, 0, "First one."))
    assert words.add(chunk(bursts(0, 1.0), 2 * RATE, 1, "Second one."))
    assert words.seconds == 1.5
    assert words.until(1.0) == PlaybackPosition("First one.", "Second one.")
    assert words.until(0.0) == PlaybackPosition("", "First one. Second one.")


def test_incomplete_segment_is_estimated_at_the_usual_pace() -> None:
    words = PlayedWords(RATE)
    words.add(chunk(bursts(0, 0.5), 0, 0, "This sentence takes much longer than half of a second to say."))
    heard = words.until(0.5).heard
    assert heard.startswith("This")
    assert len(heard.split()) < 4


def test_repeated_segment_counts_once() -> None:
    words = PlayedWords(RATE)
    words.add(chunk(bursts(0, 2.0), 0, 0, "Only once."))
    assert words.add(chunk(bursts(0, 1.0), 0, 0, "Only once."))
    words.finish()
    assert words.seconds == 3.0
    assert words.until(1.0) == PlaybackPosition("", "Only once.")
    assert words.until(3.0) == PlaybackPosition("Only once.", "")


def test_word_times_of_the_model_are_used() -> None:
    """The times exclude a withdrawn attempt, and a chunk may contain the times of another segment's words."""
    words = PlayedWords(RATE)
    times = (WordTime("First", 0.1, 0.5, 0, 0), WordTime("one.", 1.5, 1.9, 0, 6), WordTime("Last.", 2.2, 2.4, 1, 0))
    words.add(chunk(bursts(0, 1.0), 0, 0, "First one."))  # withdrawn
    words.add(replace(chunk(bursts(0, 2.0), 0, 0, "First one."), words=times))
    words.add(chunk(bursts(0, 1.0), 2 * RATE, 1, "Last."))
    heard = [words.until(moment).heard for moment in (1.2, 1.4, 2.6, 2.8, 3.25, 3.4)]
    assert heard == ["", "First", "First", "First one.", "First one.", "First one. Last."]
