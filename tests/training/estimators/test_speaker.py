"""Training the speaker encoder: its features, and its learning."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from training.estimator import speech_of
from training.recogniser.model import RATE, LogMel
from training.speaker.model import SPEAKER_ENCODERS, WEIGHTS_FILE, SpeakerNet
from training.speaker.train import SpeakerRecipe, features_of, run, train
from training.speech.corpus import SAMPLE_RATE, Corpus, Utterance
from training.work import TrainingError

RECIPE = SpeakerRecipe(steps=24, batch=10, warmup_steps=4)
PITCHES = 90, 150, 230  # Hz


def voice(pitch: float, seed: int, rate: int = SAMPLE_RATE, seconds: float = 1.2) -> np.ndarray:
    """Return harmonics of a pitch in a spectrum that its speaker has, and varying loudness."""
    rng, time = np.random.default_rng(seed), np.arange(int(seconds * rate)) / rate
    spectrum = np.random.default_rng(int(pitch)).uniform(0.1, 1, 20)
    drift = pitch * (1 + 0.05 * np.sin(2 * np.pi * rng.uniform(1, 3) * time))
    tones = [level * np.sin(i * 2 * np.pi * np.cumsum(drift) / rate) for i, level in enumerate(spectrum, 1)]
    loudness = 0.02 * (1.2 + np.sin(2 * np.pi * rng.uniform(2, 4) * time))
    return np.asarray(loudness * sum(tones) + 0.001 * rng.standard_normal(len(time)), np.float32)


def corpus() -> Corpus:
    """A corpus of three speakers with four utterances each, and of one that is held out."""
    utterances = [
        Utterance("", [], [], speaker, 0, 0, len(samples), False, speaker == 3, (samples * 32767).astype(np.int16))
        for speaker, pitch in enumerate((*PITCHES, 300))
        for samples in (voice(pitch, seed) for seed in range(4))
    ]
    return Corpus(utterances, {})


@pytest.fixture(scope="module")
def model() -> SpeakerNet:
    return train(corpus(), RECIPE)


def heard(pitch: float, seed: int) -> Tensor:
    return torch.from_numpy(voice(pitch, seed, RATE))[None]


def test_features_keep_the_bands_means_but_not_the_level() -> None:
    wave = heard(150, 0)
    features, centred = SpeakerNet().features(wave), LogMel()(wave)
    assert features.shape == centred.shape
    torch.testing.assert_close(features - features.mean(1, keepdim=True), centred)
    assert features.mean(1).std() > 0.1
    torch.testing.assert_close(SpeakerNet().features(0.1 * wave), features, rtol=0.02, atol=0.02)


def test_speakers_are_those_of_training_at_several_speeds() -> None:
    found = features_of(corpus(), SpeakerNet())
    assert {speaker for speaker, _ in found} == {0, 1, 2}
    assert len(found) == 15
    slowest, fastest = (min(found, key=choose) for choose in (lambda voice: voice[1], lambda voice: -voice[1]))
    assert all(len(found[0, slowest[1]][i]) > len(found[0, fastest[1]][i]) for i in range(4))


def test_short_utterances_are_left_out() -> None:
    speech = corpus()
    short = replace(speech.utterances[0], samples=SAMPLE_RATE // 2)
    assert speech_of(Corpus([short, *speech.utterances[1:]], {}))[0] == speech.utterances[1:4]


def test_network_tells_voices_apart_that_say_something_else(model: SpeakerNet) -> None:
    references = torch.cat([model(heard(pitch, 20)) for pitch in PITCHES])
    torch.testing.assert_close(references.norm(dim=1), torch.ones(3))
    for own, pitch in enumerate(PITCHES):
        for seed in (30, 31, 32):
            assert int((references @ model(heard(pitch, seed))[0]).argmax()) == own


def test_speech_without_enough_utterances_is_refused() -> None:
    few = Corpus(corpus().utterances[:2], {})
    with pytest.raises(TrainingError, match="No speaker has 3 utterances"):
        train(few, RECIPE)


def test_network_is_stored(model: SpeakerNet, tmp_path: Path) -> None:
    model.save(tmp_path / WEIGHTS_FILE)
    assert (tmp_path / WEIGHTS_FILE).stat().st_mode & 0o044 == 0o044
    assert torch.equal(SpeakerNet.load(tmp_path / WEIGHTS_FILE)(heard(150, 0)), model(heard(150, 0)))


def test_a_working_folder_gets_encoders_that_hear_other_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Corpus, "load", lambda _folder: corpus())
    assert run(tmp_path, SpeakerRecipe(steps=1, batch=2)) == 3
    wave = heard(150, 0)
    found = {file: SpeakerNet.load(tmp_path / file, sizes) for file, sizes in SPEAKER_ENCODERS.items()}
    for encoder in found.values():
        torch.testing.assert_close(encoder(wave).norm(dim=1), torch.ones(1))
    assert len({encoder.features(wave).shape for encoder in found.values()}) == 3
    assert len({str(encoder) for encoder in found.values()}) == len(found)
