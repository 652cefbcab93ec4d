"""Discriminators between the codec's audio and speech, and the adversarial losses.

Regression losses alone leave a buzz: where the codes do not determine the sound, the mean of all possible continuations
does not sound like speech. Multi-period discriminators as in HiFi-GAN (Kong et al., 2020), multi-resolution ones over
complex spectra as in EnCodec and DAC (Défossez et al., 2022; Kumar et al., 2023), both small enough for a CPU; least
squares (Mao et al., 2017) and feature matching (Larsen et al., 2016).

Shapes: B batch, n samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

_PERIODS = (2, 3, 5, 7, 11)  # samples; primes, so that periods do not overlap
_WINDOWS = (2048, 1024, 512)  # samples
_PERIOD_WIDTHS = (16, 32, 64, 64)
_SPECTRUM_WIDTHS = (12, 16, 24, 24)
_SLOPE = 0.1


def _conv(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int]) -> nn.Module:
    padding = (kernel[0] // 2, kernel[1] // 2)
    return weight_norm(nn.Conv2d(inputs, outputs, kernel, stride, padding))


class Discriminator(nn.Module):
    """Convolutions over a plane; all layers' outputs are feature maps, the last one is the verdict."""

    def __init__(self, inputs: int, widths: Sequence[int], kernel: tuple[int, int], stride: tuple[int, int]) -> None:
        super().__init__()
        pairs = zip((inputs, *widths[:-1]), widths, strict=True)
        self.layers = nn.ModuleList(_conv(a, b, kernel, stride) for a, b in pairs)
        self.verdict = _conv(widths[-1], 1, (3, 3) if kernel[1] > 1 else (3, 1), (1, 1))

    def maps(self, plane: Tensor) -> list[Tensor]:
        """Plane `[B, inputs, h, w]` → the layers' outputs; the last is the verdict `[B, 1, h', w']`."""
        found = []
        for layer in self.layers:
            plane = F.leaky_relu(layer(plane), _SLOPE)
            found.append(plane)
        return [*found, self.verdict(plane)]


class PeriodDiscriminator(Discriminator):
    """Convolves samples p apart: detects periodic structure."""

    def __init__(self, period: int) -> None:
        super().__init__(1, _PERIOD_WIDTHS, (5, 1), (3, 1))
        self.period = period

    def forward(self, audio: Tensor) -> list[Tensor]:
        """Audio `[B, 1, n]` → maps."""
        padded = F.pad(audio, (0, -audio.shape[-1] % self.period), "reflect")
        return self.maps(padded.unflatten(-1, (-1, self.period)))


class SpectrumDiscriminator(Discriminator):
    """Convolves real and imaginary parts of a spectrum, so phases too."""

    def __init__(self, window: int) -> None:
        super().__init__(2, _SPECTRUM_WIDTHS, (3, 5), (1, 2))
        self.size = window
        self.register_buffer("window", torch.hann_window(window), persistent=False)

    def forward(self, audio: Tensor) -> list[Tensor]:
        """Audio `[B, 1, n]` → maps."""
        spectrum = torch.stft(
            audio[:, 0], self.size, self.size // 4, window=self.window, normalized=True, return_complex=True
        )
        return self.maps(torch.view_as_real(spectrum).permute(0, 3, 2, 1))


@dataclass(frozen=True)
class Verdict:
    """Losses of the discriminators for copies.

    Attributes:
        own: their own loss, with gradients for the discriminators only.
        adversarial, features: the codec's losses, scalars without gradients.
        gradient: of the two together, weighted, with respect to the copies `[B, 1, n]`.
    """

    own: Tensor
    adversarial: Tensor
    features: Tensor
    gradient: Tensor


class Discriminators(nn.Module):
    """All of them."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ModuleList(
            [*(PeriodDiscriminator(p) for p in _PERIODS), *(SpectrumDiscriminator(w) for w in _WINDOWS)]
        )

    def judge(self, made: Tensor, wanted: Tensor, *, adversarial: float, features: float) -> Verdict:
        """Judge copies against originals, both `[B, 1, n]`; the last two arguments are weights.

        One pass over each gives both the codec's gradient and the discriminators' own.
        """
        copies = made.detach().requires_grad_()
        own, fooled, matched = [], [], []
        for discriminator in self.all:
            maps = [m.chunk(2) for m in discriminator(torch.cat([wanted, copies]))]
            *between, (real, fake) = maps
            own.append((real - 1).square().mean() + fake.square().mean())
            fooled.append((fake - 1).square().mean())
            matched += [(a.detach() - b).abs().mean() / a.detach().abs().mean().clamp(1e-4) for a, b in between]
        fooling, matching = torch.stack(fooled).mean(), torch.stack(matched).mean()
        wish = adversarial * fooling + features * matching
        (gradient,) = torch.autograd.grad(wish, copies, retain_graph=True)
        return Verdict(torch.stack(own).mean(), fooling.detach(), matching.detach(), gradient)
