"""A small speaker encoder: an x-vector network with attentive statistics pooling.

Snyder et al., 2018; Okabe et al., 2018. It is for training alone: benchmarks compare voices with another network, which
has heard none of our voices.

Shapes: B batch, n samples, T feature frames.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.estimator import Estimator
from training.recogniser.model import LogMel

WIDTH = 128  # of an embedding
WEIGHTS_FILE = "speaker.safetensors"  # in a working folder
_MELS, _CHANNELS, _POOLED, _ATTENTION = 64, 160, 320, 64
_KERNELS, _DILATIONS, _STRIDES = (5, 3, 3, 3, 1), (1, 1, 2, 3, 1), (2, 1, 1, 1, 1)
_LEAST_VARIANCE = 1e-4


def speaker_features() -> LogMel:
    """Return the network's features: `[…, T, 64]` of samples `[…, n]` at 16 kHz, one frame per 10 ms."""
    return LogMel(centred=False)


class SpeakerNet(Estimator):
    """Network from samples at 16 kHz to a unit vector. Similarity is the cosine of two vectors."""

    def __init__(self) -> None:
        super().__init__()
        self._mel = speaker_features()
        widths = [_MELS, *[_CHANNELS] * (len(_KERNELS) - 1), _POOLED]
        sizes = zip(widths[:-1], widths[1:], _KERNELS, _DILATIONS, _STRIDES, strict=True)
        self.layers = nn.Sequential(*(_layer(*each) for each in sizes))
        self.attention = nn.Sequential(nn.Conv1d(_POOLED, _ATTENTION, 1), nn.Tanh(), nn.Conv1d(_ATTENTION, _POOLED, 1))
        self.norm = nn.BatchNorm1d(2 * _POOLED)
        self.output = nn.Linear(2 * _POOLED, WIDTH)

    def embed(self, features: Tensor) -> Tensor:
        """Embed features `[B, T, 64]`. Returns unit vectors `[B, 128]`."""
        hidden = self.layers(features.mT)
        weights = self.attention(hidden).softmax(-1)
        mean = (weights * hidden).sum(-1)
        variance = (weights * hidden.square()).sum(-1) - mean.square()
        pooled = self.norm(torch.cat([mean, variance.clamp(min=_LEAST_VARIANCE).sqrt()], dim=1))
        return F.normalize(self.output(pooled), dim=1)

    def forward(self, wave: Tensor) -> Tensor:
        """Embed samples `[B, n]` at 16 kHz. Returns unit vectors `[B, 128]`."""
        return self.embed(self._mel(wave))


def _layer(width: int, out: int, kernel: int, dilation: int, stride: int) -> nn.Sequential:
    padding = dilation * (kernel // 2)
    convolution = nn.Conv1d(width, out, kernel, stride=stride, padding=padding, dilation=dilation)
    return nn.Sequential(convolution, nn.ReLU(), nn.BatchNorm1d(out))
