"""Small speaker encoders: x-vector networks with attentive statistics pooling.

Snyder et al., 2018; Okabe et al., 2018. They are for training alone: benchmarks compare voices with another network,
which has heard none of our voices. One is the judge of the dual AR's reward; the decoder learns from several, which
hear and weigh other things, because a single one is satisfied by sounds that nobody else takes for the voice.

Shapes: B batch, n samples, T feature frames, C channels.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.estimator import Estimator
from training.recogniser.model import LogMel, MelSizes

WIDTH = 128  # of an embedding
WEIGHTS_FILE = "speaker.safetensors"  # of the reward's encoder, in a working folder
_ATTENTION = 64
_KERNELS, _STRIDES = (5, 3, 3, 3, 1), (2, 1, 1, 1, 1)
_LEAST_VARIANCE = 1e-4


@dataclass(frozen=True)
class SpeakerSizes:
    """Sizes of a speaker encoder. channels, pooled: of its layers, and of the last one."""

    mel: MelSizes = field(default_factory=MelSizes)
    channels: int = 160
    pooled: int = 320
    dilations: tuple[int, ...] = (1, 1, 2, 3, 1)


# By the name of their file in a working folder.
SPEAKER_ENCODERS = {
    "speaker-wide.safetensors": SpeakerSizes(
        MelSizes(mels=80, lowest=30.0, highest=7900.0), channels=176, pooled=352, dilations=(1, 1, 2, 4, 1)
    ),
    "speaker-narrow.safetensors": SpeakerSizes(
        MelSizes(mels=48, fft=1024, window=640, hop=200, lowest=80.0, highest=4200.0), channels=96, pooled=192
    ),
    "speaker-long.safetensors": SpeakerSizes(
        MelSizes(fft=1024, window=800), channels=128, pooled=256, dilations=(1, 2, 3, 1, 1)
    ),
    WEIGHTS_FILE: SpeakerSizes(),
}


class SpeakerNet(Estimator):
    """Network from samples at 16 kHz to a unit vector. Similarity is the cosine of two vectors."""

    def __init__(self, sizes: SpeakerSizes | None = None) -> None:
        super().__init__()
        sizes = sizes or SpeakerSizes()
        self.features = LogMel(centred=False, sizes=sizes.mel)
        widths = [sizes.mel.mels, *[sizes.channels] * (len(_KERNELS) - 1), sizes.pooled]
        shapes = zip(widths[:-1], widths[1:], _KERNELS, sizes.dilations, _STRIDES, strict=True)
        self.layers = nn.Sequential(*(_layer(*each) for each in shapes))
        self.attention = nn.Sequential(
            nn.Conv1d(sizes.pooled, _ATTENTION, 1), nn.Tanh(), nn.Conv1d(_ATTENTION, sizes.pooled, 1)
        )
        self.norm = nn.BatchNorm1d(2 * sizes.pooled)
        self.output = nn.Linear(2 * sizes.pooled, WIDTH)

    def maps(self, features: Tensor) -> list[Tensor]:
        """Return the outputs of all layers `[B, C, T']` for features `[B, T, mels]`."""
        hidden, found = features.mT, []
        for layer in self.layers:
            hidden = layer(hidden)
            found.append(hidden)
        return found

    def pool(self, hidden: Tensor) -> Tensor:
        """Return unit vectors `[B, 128]` for the last of the `maps`."""
        weights = self.attention(hidden).softmax(-1)
        mean = (weights * hidden).sum(-1)
        variance = (weights * hidden.square()).sum(-1) - mean.square()
        pooled = self.norm(torch.cat([mean, variance.clamp(min=_LEAST_VARIANCE).sqrt()], dim=1))
        return F.normalize(self.output(pooled), dim=1)

    def embed(self, features: Tensor) -> Tensor:
        """Embed features `[B, T, mels]`. Returns unit vectors `[B, 128]`."""
        return self.pool(self.maps(features)[-1])

    def forward(self, wave: Tensor) -> Tensor:
        """Embed samples `[B, n]` at 16 kHz. Returns unit vectors `[B, 128]`."""
        return self.embed(self.features(wave))


def _layer(width: int, out: int, kernel: int, dilation: int, stride: int) -> nn.Sequential:
    padding = dilation * (kernel // 2)
    convolution = nn.Conv1d(width, out, kernel, stride=stride, padding=padding, dilation=dilation)
    return nn.Sequential(convolution, nn.ReLU(), nn.BatchNorm1d(out))
