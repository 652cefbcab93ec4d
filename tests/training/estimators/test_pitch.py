"""Training the pitch estimator: its labels and its learning."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("pyworld", reason="pyworld (requirements-lab.txt) labels the speech")

from training.pitch.model import HOP, LOWEST, WEIGHTS_FILE, PitchNet
from training.pitch.train import Labelled, PitchRecipe, labelled, pitch_of, train
from training.recogniser.model import RATE
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.work import TrainingError

RECIPE = PitchRecipe(steps=40, batch=8, learning_rate=4e-3, warmup_steps=5)
PITCHES = 90, 120, 150, 190, 230  # Hz


def voice(pitch: float, seed: int, rate: int = RATE) -> np.ndarray:
    """Return harmonics that fall like those of a voice, with some vibrato and noise, for 1.2 s."""
    rng, time = np.random.default_rng(seed), np.arange(int(1.2 * rate)) / rate
    phase = 2 * np.pi * np.cumsum(pitch * (1 + 0.02 * np.sin(2 * np.pi * rng.uniform(3, 6) * time))) / rate
    tones = [np.sin(i * phase + rng.uniform(0, 6)) / i for i in range(1, int(3000 / pitch))]
    return np.asarray(0.05 * sum(tones) + 0.001 * rng.standard_normal(len(time)), np.float32)


def corpus() -> Corpus:
    """A corpus of three speakers with four utterances each."""
    utterances = [
        Utterance("", [], [], speaker, 0, 0, len(samples), False, False, (samples * 32767).astype(np.int16))
        for speaker, pitch in enumerate(PITCHES[:3])
        for samples in (voice(pitch, seed, SAMPLE_RATE) for seed in range(4))
    ]
    return Corpus(utterances, {})


def heard(pitch: float, seed: int) -> Tensor:
    return torch.from_numpy(voice(pitch, seed, RATE))[None]


def semitones(hertz: float) -> float:
    return float(12 * np.log2(hertz / LOWEST))


@pytest.fixture(scope="module")
def model() -> PitchNet:
    speech = []
    for pitch in np.geomspace(80, 260, 24):
        wave = voice(pitch, int(pitch), RATE)
        speech.append(Labelled(torch.from_numpy(wave), torch.from_numpy(pitch_of(wave))))
    return train(speech, RECIPE)


def test_frames_are_labelled_with_their_pitch_or_as_unvoiced() -> None:
    noise = 0.001 * np.random.default_rng(0).standard_normal(RATE // 2)
    labels = pitch_of(np.concatenate([voice(150, 0, RATE), noise]).astype(np.float32))
    assert np.nanmedian(labels) == pytest.approx(semitones(150), abs=0.5)
    assert np.isnan(labels[-RATE // 4 // HOP :]).all()


def test_speech_of_training_is_labelled_at_several_speeds() -> None:
    found = labelled(corpus(), 2)
    assert len(found) == 3 * 2 * 3  # speakers, utterances, rates
    usual, slow, fast = (float(each.pitch.nanmedian()) for each in found[:3])
    assert slow < usual < fast


def test_pitch_of_other_voices_is_estimated(model: PitchNet) -> None:
    for pitch in PITCHES:
        assert float(model.mean_pitch(heard(pitch, 99))) == pytest.approx(semitones(pitch), abs=1.5)


def test_estimate_has_a_gradient_and_is_the_same_after_loading(model: PitchNet, tmp_path: Path) -> None:
    model.save(tmp_path / WEIGHTS_FILE)
    again = PitchNet.load(tmp_path / WEIGHTS_FILE)
    audio = heard(190, 1).requires_grad_(True)
    before = again.mean_pitch(audio)
    assert torch.equal(before, model.mean_pitch(audio))
    (gradient,) = torch.autograd.grad(before, audio)
    assert again.mean_pitch(audio.detach() - 1e-3 * gradient / gradient.norm()) < before


def test_no_speech_is_refused() -> None:
    with pytest.raises(TrainingError, match="no speech for training"):
        train([], RECIPE)
