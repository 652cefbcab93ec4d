"""A small pitch estimator: spectra of long windows, convolutions, and a distribution over pitches in each frame.

As in CREPE (Kim et al., 2018), a pitch is the expectation over classes, so that it is differentiable. It is for
training alone: benchmarks measure pitch with Harvest.

Shapes: B batch, n samples, T frames.
"""

import torch
from torch import Tensor, nn

from training.estimator import Estimator

WEIGHTS_FILE = "pitch.safetensors"  # in a working folder
HOP = 160  # samples
LOWEST = 50.0  # Hz: pitch 0
CLASSES, CLASS_WIDTH = 80, 0.5  # semitones
_FFT, _BINS, _CHANNELS = 1024, 80, 128
_KERNELS, _DILATIONS = (5, 5, 3), (1, 2, 1)
_LEVEL, _FLOOR = 0.1, 1e-2


class PitchNet(Estimator):
    """Network from samples at 16 kHz to the pitch of each frame, in semitones above 50 Hz."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_window", torch.hann_window(_FFT), persistent=False)
        self.register_buffer("_pitches", CLASS_WIDTH * torch.arange(CLASSES), persistent=False)
        widths = [_BINS, *[_CHANNELS] * len(_KERNELS)]
        sizes = zip(widths[:-1], widths[1:], _KERNELS, _DILATIONS, strict=True)
        self.layers = nn.Sequential(*(_layer(*each) for each in sizes))
        self.output = nn.Conv1d(_CHANNELS, 1 + CLASSES, 1)

    def forward(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        """Return, for samples `[B, n]`, the logit of being voiced `[B, T]` and those of all pitches `[B, T, 80]`."""
        level = wave.square().mean(-1, keepdim=True).clamp(min=1e-10).sqrt()
        spectrum = torch.stft(
            wave * (_LEVEL / level), _FFT, HOP, window=self.get_buffer("_window"), pad_mode="constant",
            return_complex=True,
        )  # fmt: skip
        power = (spectrum[:, 1 : 1 + _BINS].abs().square() + _FLOOR).log() * 0.25
        out = self.output(self.layers(power)).mT
        return out[..., 0], out[..., 1:]

    def contour(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        """Return, for samples `[B, n]`, the logit of being voiced and the pitch in semitones above 50 Hz, `[B, T]`."""
        voiced, logits = self(wave)
        return voiced, (logits.softmax(-1) * self.get_buffer("_pitches")).sum(-1)

    def mean_pitch(self, wave: Tensor) -> Tensor:
        """Return the mean pitch of the voiced frames of samples `[B, n]`, in semitones above 50 Hz `[B]`."""
        voiced, pitch = self.contour(wave)
        weights = voiced.sigmoid().detach()
        mean: Tensor = (weights * pitch).sum(-1) / weights.sum(-1).clamp(min=1e-6)
        return mean


def _layer(width: int, out: int, kernel: int, dilation: int) -> nn.Sequential:
    convolution = nn.Conv1d(width, out, kernel, dilation=dilation, padding=dilation * (kernel // 2))
    return nn.Sequential(convolution, nn.ReLU(), nn.BatchNorm1d(out))
