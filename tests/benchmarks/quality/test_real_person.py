"""Clips of real people are joined, and sentences in their voices are summarised."""

import math
from pathlib import Path

import numpy as np
import pytest
import soundfile

from benchmarks.judges import sound
from benchmarks.judges.mos import OpinionScores
from benchmarks.judges.phones import PhoneErrors
from benchmarks.judges.words import WordErrors
from benchmarks.quality.real_person import Heard, Person, figures
from benchmarks.quality.takes import Run

RATE = 8_000


def measurement(f0: float, level: float = -20.0, stop: str = "end") -> Heard:
    return Heard(
        "a",
        "",
        WordErrors(1, 4),
        PhoneErrors(1, 10),
        (100.0, f0),
        level,
        0.05,
        0.7,
        OpinionScores(3.0, 2.5, 2.0),
        Run("x", stop, 1, 0.3, 0.2),
    )


def test_clips_are_joined_with_their_transcripts(tmp_path: Path) -> None:
    for name in ("one", "two"):
        soundfile.write(tmp_path / f"{name}.wav", np.full(RATE, 0.5, dtype=np.float32), RATE)
    person = Person("someone", "a-package", tmp_path, (("one.wav", "One."), ("two.wav", "Two.")))
    samples, rate, transcript = person.reference()
    assert (len(samples), rate, transcript) == (2 * RATE + RATE // 5, RATE, "One. Two.")
    assert not person.missing()
    assert Person("someone", "a-package", tmp_path, (("three.wav", "Three."),)).missing()


def test_pitch_differences_are_in_semitones() -> None:
    found = figures([measurement(100.0), measurement(200.0), measurement(100 * 2 ** (2 / 12))])
    assert found["apart, semitones"] == pytest.approx(2)
    assert found["the farthest sentence, semitones"] == pytest.approx(12)
    assert found["phone error, no language model"] == pytest.approx(0.1)
    assert found["word error, Whisper tiny.en"] == pytest.approx(0.25)
    assert found["sound quality, DNSMOS P.835, speech alone"] == pytest.approx(3.0)
    assert found["sound quality, DNSMOS P.808"] == pytest.approx(2.0)


def test_figures_report_the_worst_sentence() -> None:
    found = figures([measurement(math.nan, level=sound.SILENCE, stop="length"), measurement(100.0)])
    assert found["softest sentence, dBFS"] == sound.SILENCE
    assert found["runs that end properly"] == 0.5
    assert found["apart, semitones"] == 0.0
    assert math.isnan(figures([measurement(math.nan)])["apart, semitones"])


def test_spectral_flatness_separates_noise_from_voice() -> None:
    random = np.random.default_rng(0)
    time = np.arange(RATE) / RATE
    buzz = sum(np.sin(2 * np.pi * 120 * n * time) / n for n in range(1, 25)) * 0.1
    noise = random.normal(0, 0.1, RATE)
    assert sound.flatness(noise.astype(np.float32), RATE) == pytest.approx(0.56, abs=0.05)
    assert sound.flatness((np.asarray(buzz) + 0.001 * noise).astype(np.float32), RATE) < 0.1
    assert math.isnan(sound.flatness(np.zeros(RATE, dtype=np.float32), RATE))


def test_level_is_in_dbfs() -> None:
    assert sound.level(np.full(100, 0.1, dtype=np.float32)) == pytest.approx(-20, abs=1e-3)
    assert sound.level(np.zeros(100, dtype=np.float32)) == sound.level(np.zeros(0, dtype=np.float32)) == sound.SILENCE
