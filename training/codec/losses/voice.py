"""Distance of a copy's voice from its original's, for networks that hear voices and pitch.

A copy may have all of a voice that is in the codes and still sound like another one. Both signals pass through the same
random channel, and a few encoders that differ listen to them: a single one would be learned by heart.

Shapes: B batch, n samples, T frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchaudio.transforms import Resample

from training.pitch.model import WEIGHTS_FILE as PITCH_FILE
from training.pitch.model import PitchNet
from training.recogniser.model import RATE
from training.speaker.model import SPEAKER_ENCODERS, SpeakerNet

_LISTENING = 2  # encoders a step
_VOICING_WEIGHT = 0.5
_SLOWEST, _FASTEST = 0.87, 1.15
_BANDS, _RESPONSE = 9, 4.0  # number of the channel's bands; standard deviation of their levels in dB
_LEAST_SNR, _MOST_SNR = 12.0, 35.0  # dB
_LEAST_LEVEL = 1e-4


@dataclass(frozen=True)
class VoiceDistance:
    """Scalars with gradients. voice: cosine distance. voice_maps: relative L1 of the feature maps. f0: distance of the
    frames' F0 in semitones, and the cross-entropy of their voicing."""

    voice: Tensor
    voice_maps: Tensor
    f0: Tensor


class VoiceLoss(nn.Module):
    """The loss of a copy's voice. Its networks are frozen."""

    def __init__(self, sample_rate: int, encoders: Sequence[SpeakerNet], estimator: PitchNet) -> None:
        super().__init__()
        self._resample = Resample(sample_rate, RATE)
        self._encoders = nn.ModuleList(encoders).eval().requires_grad_(False)
        self._estimator = estimator.eval().requires_grad_(False)

    @classmethod
    def load(cls, work: Path, sample_rate: int) -> "VoiceLoss":
        """Load the networks of a working folder. Raises TrainingError when one of them is missing."""
        encoders = [SpeakerNet.load(work / file, sizes) for file, sizes in SPEAKER_ENCODERS.items()]
        return cls(sample_rate, encoders, PitchNet.load(work / PITCH_FILE))

    def forward(self, copy: Tensor, original: Tensor, generator: torch.Generator) -> VoiceDistance:
        """Compare audio `[B, 1, n]`. generator: on the CPU, for the channel and the choice of encoders."""
        copy, original = self._resample(copy[:, 0]), self._resample(original[:, 0])
        f0 = self._f0_distance(copy, original)
        copy, original = through_channel(torch.stack([copy, original]), generator)
        voice, maps = [], []
        for i in torch.randperm(len(self._encoders), generator=generator)[:_LISTENING].tolist():
            encoder = self._encoders[i]
            with torch.no_grad():
                heard = encoder.maps(encoder.features(original))
                wanted = encoder.pool(heard[-1])
            found = encoder.maps(encoder.features(copy))
            voice.append(1 - (encoder.pool(found[-1]) * wanted).sum(-1).mean())
            maps += [(a - b).abs().mean() / b.abs().mean() for a, b in zip(found, heard, strict=True)]
        return VoiceDistance(torch.stack(voice).mean(), torch.stack(maps).mean(), f0)

    def _f0_distance(self, copy: Tensor, original: Tensor) -> Tensor:
        """Compare samples `[B, n]` at 16 kHz."""
        with torch.no_grad():
            is_voiced, wanted = self._estimator.contour(original)
            voiced = is_voiced.sigmoid()
        guess, found = self._estimator.contour(copy)
        distances = F.huber_loss(found, wanted, reduction="none")
        apart = (distances * voiced).sum() / voiced.sum().clamp(min=1)
        return apart + _VOICING_WEIGHT * F.binary_cross_entropy_with_logits(guess, voiced)


def through_channel(audio: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return both signals of `[2, B, n]` at another speed, with another response, and with noise; those of one row
    the same. The results `[B, m]` last as long as the fastest one."""

    def uniform(low: float, high: float) -> Tensor:
        return (low + (high - low) * torch.rand(size, 1, generator=generator)).to(audio.device)

    def often(share: float) -> Tensor:
        return uniform(0, 1) < share

    _, size, n = audio.shape
    length = int(n / _FASTEST) - 1
    speed = torch.where(often(0.4), uniform(_SLOWEST, _FASTEST), 1.0)
    places = torch.arange(length, device=audio.device) * speed
    left = places.long()
    weight = places - left
    levels = _RESPONSE * torch.randn(size, 1, _BANDS, generator=generator).to(audio.device) * often(0.6)[..., None]
    decibels = F.interpolate(levels, size=length // 2 + 1, mode="linear", align_corners=True)[:, 0]
    level = audio[1].square().mean(-1, keepdim=True).sqrt().clamp(min=_LEAST_LEVEL)
    noise = torch.randn(size, length, generator=generator).to(audio.device) * often(0.4)
    noise = noise * level * 10 ** (-uniform(_LEAST_SNR, _MOST_SNR) / 20)
    heard = []
    for signal in audio:
        moved = torch.lerp(signal.gather(1, left), signal.gather(1, left + 1), weight)
        heard.append(torch.fft.irfft(torch.fft.rfft(moved) * 10 ** (decibels / 20), length) + noise)
    return heard[0], heard[1]
