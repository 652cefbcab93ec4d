"""DNSMOS on clear, noisy and rough speech."""

from importlib.util import find_spec

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from benchmarks.judges.mos import opinion_scores
from tests.paths import CLIP

pytestmark = pytest.mark.skipif(find_spec("speechmos") is None, reason="DNSMOS is not installed")


@pytest.fixture(scope="module")
def speech() -> tuple[NDArray[np.float32], int]:
    samples, rate = soundfile.read(CLIP, dtype="float32")
    return samples, rate


def test_noise_and_clipping_lower_the_scores(speech: tuple[NDArray[np.float32], int]) -> None:
    samples, rate = speech
    noise = np.random.default_rng(0).normal(0, 0.02, len(samples)).astype(np.float32)
    clear, noisy = opinion_scores(samples, rate), opinion_scores(samples + noise, rate)
    rough = opinion_scores(0.1 * np.sign(samples), rate)
    for other in (noisy, rough):
        assert 1 <= other.p808 < clear.p808 <= 5
        assert 1 <= other.overall < clear.overall <= 5
    assert rough.signal < clear.signal - 0.5


def test_no_samples_are_rejected() -> None:
    with pytest.raises(ValueError, match="no sound"):
        opinion_scores(np.zeros(0, np.float32), 16_000)
