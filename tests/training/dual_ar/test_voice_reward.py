"""Comparing takes with the voices of training speakers."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from training.dual_ar.voice_reward import SpeakerVoice, VoiceReward
from training.pitch.model import PitchNet
from training.recogniser.model import RATE
from training.speaker.model import WEIGHTS_FILE, WIDTH, SpeakerNet
from training.work import TrainingError

EMBEDDING = F.normalize(torch.ones(WIDTH), dim=0)


def audio(seed: int) -> Tensor:
    return 0.1 * torch.randn(1, RATE, generator=torch.Generator().manual_seed(seed))


def reward(pitch: float, similarity_weight: float = 0.2, pitch_weight: float = 0.5) -> VoiceReward:
    """Return a reward of a speaker 7 with random networks."""
    torch.manual_seed(0)
    networks = SpeakerNet().eval().requires_grad_(False), PitchNet().eval().requires_grad_(False)
    voices = {7: SpeakerVoice(EMBEDDING, pitch)}
    return VoiceReward(*networks, voices, similarity_weight=similarity_weight, pitch_weight=pitch_weight)


def test_voices_are_compared_by_cosine_and_pitch() -> None:
    far = reward(pitch=0.0)
    assert list(far.speakers) == [7]
    found = far(audio(1), 7)
    torch.testing.assert_close(found.similarity, far._encoder(audio(1))[0] @ EMBEDDING)
    torch.testing.assert_close(found.pitch, far._estimator.mean_pitch(audio(1))[0])
    with pytest.raises(KeyError):
        far(audio(1), 8)


@pytest.mark.parametrize(("off", "distance"), [(0.0, 0.0), (0.5, 0.125), (-0.5, 0.125), (3.0, 2.5), (-3.0, 2.5)])
def test_pitch_costs_its_distance_squared_within_a_semitone_and_linear_beyond(off: float, distance: float) -> None:
    pitch = float(reward(0.0)._estimator.mean_pitch(audio(1)))
    found = reward(pitch - off)(audio(1), 7)
    assert float(found.pitch) == pytest.approx(off, abs=1e-4)
    assert float(found.reward) == pytest.approx(0.2 * float(found.similarity) - 0.5 * distance, abs=1e-4)


def test_voice_moves_towards_the_speaker_along_the_gradient() -> None:
    for weights in ((1.0, 0.0), (0.0, 1.0)):
        near = reward(0.0, *weights)
        take = audio(2).requires_grad_(True)
        before = near(take, 7).reward
        (gradient,) = torch.autograd.grad(before, take)
        assert near(take.detach() + 1e-3 * gradient / gradient.norm(), 7).reward > before


def test_missing_networks_are_reported(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"No speaker\.safetensors in .*training\.speaker\.train"):
        VoiceReward.load(tmp_path, similarity_weight=1.0, pitch_weight=1.0)
    SpeakerNet().save(tmp_path / WEIGHTS_FILE)
    with pytest.raises(TrainingError, match=r"No pitch\.safetensors in .*training\.pitch\.train"):
        VoiceReward.load(tmp_path, similarity_weight=1.0, pitch_weight=1.0)
