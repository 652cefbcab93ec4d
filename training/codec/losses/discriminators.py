"""Discriminators that tell the codec's audio from speech, and the adversarial losses.

Regression losses alone leave a buzz: where the codes do not determine the sound, the mean of all possible continuations
does not sound like speech. Discriminators: multi-period as in HiFi-GAN (Kong et al., 2020) and multi-resolution over
complex spectra as in EnCodec and DAC (Défossez et al., 2022; Kumar et al., 2023), both small enough for a CPU. Losses:
least squares (Mao et al., 2017) and feature matching (Larsen et al., 2016).

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
_FIRST_SCORES = 0.3  # their level, by that of the last layer
_FEATURES_WEIGHT = 4.0  # of the codec's loss of features, relative to the adversarial one
_LEAST_LEVEL = 0.01  # of audio; silence is not amplified


def _conv(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int], gain: float = 1.0) -> nn.Module:
    """Make a layer whose output has `gain` times the level of its input (He et al., 2015).

    PyTorch's usual weights let a signal fade from layer to layer.
    """
    conv = nn.Conv2d(inputs, outputs, kernel, stride, (kernel[0] // 2, kernel[1] // 2))
    with torch.no_grad():
        nn.init.kaiming_normal_(conv.weight, a=_SLOPE).mul_(gain)
        conv.bias.zero_()  # type: ignore[union-attr]
    normed: nn.Module = weight_norm(conv)
    return normed


class Discriminator(nn.Module):
    """Stack of 2-D convolutions. The layers' outputs are the feature maps, the last one is the score (`verdict`)."""

    def __init__(self, inputs: int, widths: Sequence[int], kernel: tuple[int, int], stride: tuple[int, int]) -> None:
        super().__init__()
        pairs = zip((inputs, *widths[:-1]), widths, strict=True)
        self.layers = nn.ModuleList(_conv(a, b, kernel, stride) for a, b in pairs)
        self.verdict = _conv(widths[-1], 1, (3, 3) if kernel[1] > 1 else (3, 1), (1, 1), _FIRST_SCORES)

    def maps(self, plane: Tensor) -> list[Tensor]:
        """Return the outputs of all layers for `plane` `[B, inputs, h, w]`; the last is the score `[B, 1, h', w']`."""
        found = []
        for layer in self.layers:
            plane = F.leaky_relu(layer(plane), _SLOPE)
            found.append(plane)
        return [*found, self.verdict(plane)]


class PeriodDiscriminator(Discriminator):
    """Discriminator that convolves samples one period apart, which detects periodic structure."""

    def __init__(self, period: int) -> None:
        super().__init__(1, _PERIOD_WIDTHS, (5, 1), (3, 1))
        self.period = period

    def forward(self, audio: Tensor) -> list[Tensor]:
        """Return the feature maps of audio `[B, 1, n]`."""
        padded = F.pad(audio, (0, -audio.shape[-1] % self.period), "reflect")
        return self.maps(padded.unflatten(-1, (-1, self.period)))


class SpectrumDiscriminator(Discriminator):
    """Discriminator over the real and imaginary parts of a spectrum, so that phase counts too."""

    window: Tensor

    def __init__(self, window: int) -> None:
        super().__init__(2, _SPECTRUM_WIDTHS, (3, 5), (1, 2))
        self.size = window
        self.register_buffer("window", torch.hann_window(window), persistent=False)

    def forward(self, audio: Tensor) -> list[Tensor]:
        """Return the feature maps of audio `[B, 1, n]`."""
        spectrum = torch.stft(
            audio[:, 0], self.size, self.size // 4, window=self.window, normalized=True, return_complex=True
        )
        return self.maps(torch.view_as_real(spectrum).permute(0, 3, 2, 1))


@dataclass(frozen=True)
class AdversarialLosses:
    """Losses of `Discriminators.judge`.

    Attributes:
        discriminators: the discriminators' own loss, with gradients for the discriminators only.
        adversarial, features: the codec's losses, scalars without gradients.
        gradient: gradient of the codec's weighted losses with respect to the copies `[B, 1, n]`.
    """

    discriminators: Tensor
    adversarial: Tensor
    features: Tensor
    gradient: Tensor


class Discriminators(nn.Module):
    """All period and spectrum discriminators."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ModuleList(
            [*(PeriodDiscriminator(p) for p in _PERIODS), *(SpectrumDiscriminator(w) for w in _WINDOWS)]
        )

    @staticmethod
    def normalising_gain(audio: Tensor) -> Tensor:
        """Return the factors `[B, 1, 1]` that bring audio `[B, 1, n]` to a root mean square of 1."""
        return audio.square().mean((1, 2), keepdim=True).sqrt().clamp(min=_LEAST_LEVEL).reciprocal()

    def judge(self, reconstructed: Tensor, original: Tensor) -> AdversarialLosses:
        """Judge audio `reconstructed` against `original`, both `[B, 1, n]`.

        A single forward pass yields both the
        codec's gradient and the discriminators' own loss. The originals are heard at one level, and the copies as much
        louder.
        """
        copies = reconstructed.detach().requires_grad_()
        pair = self.normalising_gain(original).repeat(2, 1, 1) * torch.cat([original, copies])
        discriminator_losses, adversarial_losses, feature_losses = [], [], []
        for discriminator in self.all:
            maps = [m.chunk(2) for m in discriminator(pair)]
            *between, (real, fake) = maps
            discriminator_losses.append((real - 1).square().mean() + fake.square().mean())
            adversarial_losses.append((fake - 1).square().mean())
            feature_losses += [(a.detach() - b).abs().mean() / a.detach().abs().mean().clamp(1e-4) for a, b in between]
        adversarial_loss, feature_loss = torch.stack(adversarial_losses).mean(), torch.stack(feature_losses).mean()
        generator_loss = adversarial_loss + _FEATURES_WEIGHT * feature_loss
        (gradient,) = torch.autograd.grad(generator_loss, copies, retain_graph=True)
        return AdversarialLosses(
            torch.stack(discriminator_losses).mean(), adversarial_loss.detach(), feature_loss.detach(), gradient
        )
