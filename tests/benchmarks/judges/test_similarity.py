"""The speaker encoder on sounds of equal and different sources."""

from importlib.util import find_spec

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.judges.similarity import RATE, SpeakerEncoder, own_is_nearest


@pytest.fixture(scope="module")
def encoder() -> SpeakerEncoder:
    if find_spec("resemblyzer") is None:
        pytest.skip("the speaker encoder's weights are not installed")
    return SpeakerEncoder()


def sound(seed: int, f0: float) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    time = np.arange(2 * RATE) / RATE
    vibrato = 1 + 0.02 * np.sin(2 * np.pi * random.uniform(3, 6) * time)
    phase = 2 * np.pi * np.cumsum(f0 * vibrato) / RATE
    wave = sum(np.sin(n * phase) / n for n in range(1, 20)) + random.normal(0, 0.05, len(time))
    return (0.1 * np.asarray(wave)).astype(np.float32)


def test_embedding_is_a_unit_vector(encoder: SpeakerEncoder) -> None:
    vector = encoder.embed(sound(0, 120.0), RATE)
    assert vector.shape == (256,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_similar_sounds_have_closer_embeddings(encoder: SpeakerEncoder) -> None:
    low, also_low, high = (encoder.embed(sound(i, f0), RATE) for i, f0 in enumerate((100.0, 103.0, 240.0)))
    assert low @ also_low > low @ high
    assert own_is_nearest(also_low, 0, [low, high])
    assert not own_is_nearest(high, 0, [low, high])


def test_embedding_is_robust_to_loudness_and_pauses(encoder: SpeakerEncoder) -> None:
    wave = sound(0, 120.0)
    paused = np.concatenate([np.zeros(RATE, np.float32), 0.2 * wave, np.zeros(RATE // 2, np.float32)])
    assert encoder.embed(wave, RATE) @ encoder.embed(paused, RATE) > 0.98


def test_silence_is_rejected(encoder: SpeakerEncoder) -> None:
    with pytest.raises(ValueError, match="silence"):
        encoder.embed(np.zeros(RATE, dtype=np.float32), RATE)
