"""The loss of a copy's voice, and the random channel through which it is heard."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from training.codec.losses.voice import VoiceLoss, through_channel
from training.pitch.model import WEIGHTS_FILE as PITCH_FILE
from training.pitch.model import PitchNet
from training.speaker.model import SPEAKER_ENCODERS, SpeakerNet
from training.speech.corpus import SAMPLE_RATE
from training.work import TrainingError


def noise(seed: int, rows: int = 2, n: int = SAMPLE_RATE) -> Tensor:
    return 0.1 * torch.randn(rows, 1, n, generator=torch.Generator().manual_seed(seed)).cumsum(-1).sin()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def loss() -> VoiceLoss:
    torch.manual_seed(0)
    return VoiceLoss(SAMPLE_RATE, [SpeakerNet(sizes) for sizes in SPEAKER_ENCODERS.values()], PitchNet())


def test_equal_audio_has_no_distance(loss: VoiceLoss) -> None:
    audio = noise(0)
    for seed in range(4):
        found = loss(audio, audio.clone(), generator(seed))
        assert float(found.voice) == pytest.approx(0, abs=1e-5)
        assert float(found.voice_maps) == pytest.approx(0, abs=1e-4)
    other = loss(noise(1), audio, generator())
    assert other.voice > 2e-5  # untrained networks hear little difference
    assert other.voice_maps > 0.01
    assert other.f0 > loss(audio, audio, generator()).f0


def test_copy_moves_towards_the_original_along_the_gradient(loss: VoiceLoss) -> None:
    original, copy = noise(0), noise(1).requires_grad_()
    for name in ("voice", "voice_maps", "f0"):
        before = getattr(loss(copy, original, generator()), name)
        (gradient,) = torch.autograd.grad(before, copy)
        assert gradient.isfinite().all()
        nearer = copy.detach() - 1e-2 * gradient / gradient.norm()
        assert getattr(loss(nearer, original, generator()), name) < before, name


def test_networks_take_no_gradient_and_silence_is_finite(loss: VoiceLoss) -> None:
    copy = torch.zeros(2, 1, SAMPLE_RATE).requires_grad_()
    found = loss(copy, noise(0), generator())
    torch.autograd.backward([found.voice, found.voice_maps, found.f0])
    assert copy.grad is not None
    assert copy.grad.isfinite().all()
    assert all(weight.grad is None for weight in loss.parameters())


def test_a_generator_chooses_encoders_and_channel(loss: VoiceLoss) -> None:
    copy, original = noise(1), noise(0)
    first, again, other = (loss(copy, original, generator(seed)).voice for seed in (0, 0, 1))
    assert first == again != other


def test_both_signals_pass_through_the_same_channel() -> None:
    signal = noise(0, rows=6, n=16_000)[:, 0]
    plain = 0
    for seed in range(4):
        a, b = through_channel(torch.stack([signal, signal]), generator(seed))
        assert torch.equal(a, b)
        assert a.shape == (6, int(16_000 / 1.15) - 1)
        changed = (a - signal[:, : a.shape[1]]).norm(dim=1) > 1e-4 * signal.norm(dim=1)
        assert changed.any()
        plain += int((~changed).sum())
    assert plain > 0, "some are heard as they are"


def test_noise_is_relative_to_the_original() -> None:
    silent = torch.zeros(64, 16_000)
    a, b = through_channel(torch.stack([silent, noise(0, rows=64, n=16_000)[:, 0]]), generator())
    levels = 20 * torch.log10(a.square().mean(1).sqrt() / b.square().mean(1).sqrt())
    noisy = a.abs().amax(1) > 0
    assert 0.2 < noisy.float().mean() < 0.6
    assert -40 < levels[noisy].min() < levels[noisy].max() < -5


def test_networks_are_loaded_from_a_working_folder(loss: VoiceLoss, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"No speaker-wide\.safetensors"):
        VoiceLoss.load(tmp_path, SAMPLE_RATE)
    for (file, _), encoder in zip(SPEAKER_ENCODERS.items(), loss._encoders, strict=True):
        encoder.save(tmp_path / file)  # type: ignore[operator]
    with pytest.raises(TrainingError, match=r"No pitch\.safetensors"):
        VoiceLoss.load(tmp_path, SAMPLE_RATE)
    loss._estimator.save(tmp_path / PITCH_FILE)
    found = VoiceLoss.load(tmp_path, SAMPLE_RATE)(noise(1), noise(0), generator())
    torch.testing.assert_close(found.voice, loss(noise(1), noise(0), generator()).voice)
