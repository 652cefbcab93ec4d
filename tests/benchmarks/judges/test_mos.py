"""DNSMOS on clear, noisy and rough speech."""

from functools import partial

import numpy as np
import pytest
import soundfile

from benchmarks.judges.mos import opinion_scores
from tests.paths import CLIP

dnsmos = pytest.importorskip("speechmos.dnsmos", reason="DNSMOS is not installed")


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the networks in one thread: those of ONNX Runtime spin while they wait for each other."""
    options = dnsmos.ort.SessionOptions()
    options.intra_op_num_threads = 1
    monkeypatch.setattr(dnsmos.ort, "InferenceSession", partial(dnsmos.ort.InferenceSession, sess_options=options))
    monkeypatch.setattr(dnsmos, "dnsmos", None)


@pytest.mark.usefixtures("one_thread")
def test_noise_and_clipping_lower_the_scores() -> None:
    samples, rate = soundfile.read(CLIP, dtype="float32")
    samples = samples[: int(2.4 * rate)]  # repeated, they are one section of nine seconds for DNSMOS
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
