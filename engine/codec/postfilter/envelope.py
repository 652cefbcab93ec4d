"""The spectral envelope of voiced speech (CheapTrick; Morise, 2015): what harmonics of a period are samples of.

Shapes: H hops, B bins.
"""

import math

import torch
from torch import Tensor

from engine.codec.postfilter.pitch import LOWEST

_PERIODS = 1.5  # on each side of a hop
_WIDTH = 2 / 3  # of the smoothing, in fundamental frequencies
_RECOVERY = -0.15  # of what the smoothing takes from the peaks
_FLOOR = 1e-12


class Envelope:
    """The sizes of the envelopes at one sample rate.

    reach: samples before a hop that an envelope may need, and one more than it may need after it. transform: of the
    spectra. frequencies: of their bins, Hz `[B]`.
    """

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self.reach = math.ceil(_PERIODS * sample_rate / LOWEST) + 1
        self.transform = 1 << (2 * self.reach - 1).bit_length()
        self._bin = sample_rate / self.transform  # Hz
        self.frequencies = torch.arange(self.transform // 2 + 1, dtype=torch.float32) * self._bin
        self._offsets = torch.arange(-self.reach, self.reach)
        self._quefrencies = torch.arange(self.transform // 2 + 1, dtype=torch.float32) / sample_rate

    def power(self, x: Tensor, f0: Tensor) -> Tensor:
        """Return the power of white noise with the same envelope `[H, B]`.

        x: `[H, 2 × reach]`, around the hops. f0: Hz `[H]`.
        """
        f0 = f0[:, None]
        phase = self._offsets * f0 / (_PERIODS * self._rate)
        window = torch.where(phase.abs() <= 1, 0.5 + 0.5 * torch.cos(math.pi * phase), 0.0)
        window = window / window.square().sum(1, keepdim=True).sqrt()
        x = x * window
        x = x - window * (x.sum(1, keepdim=True) / window.sum(1, keepdim=True))
        spectra = torch.fft.rfft(x, self.transform)
        power = spectra.real.square() + spectra.imag.square()
        # What is below the fundamental frequency is mirrored there.
        mirrored = read_between(power, (f0 - self.frequencies) / self._bin)
        power = power + torch.where(self.frequencies < f0, mirrored, 0.0)
        return self._recovered(self._smoothed(power, _WIDTH * f0), f0)

    def _smoothed(self, power: Tensor, width: Tensor) -> Tensor:
        """Average power `[H, B]` over `width` Hz `[H, 1]`."""
        bins = power.shape[1]
        whole = torch.cat([power.flip(1)[:, :-1], power, power.flip(1)[:, 1:]], dim=1)  # mirrored at both ends
        integral = whole.cumsum(1, dtype=torch.float64)
        half = width / (2 * self._bin)
        places = torch.arange(bins - 1, 2 * bins - 1, dtype=torch.float32) - 0.5  # an integral ends behind its bin
        upper, lower = read_between(integral, places + half), read_between(integral, places - half)
        return ((upper - lower) / (2 * half)).float().clamp(min=_FLOOR)

    def _recovered(self, power: Tensor, f0: Tensor) -> Tensor:
        """Remove what still varies with the period, and sharpen the peaks."""
        cepstra = torch.fft.irfft(power.log(), self.transform)[:, : power.shape[1]]
        turns = f0 * self._quefrencies
        lifter = torch.sinc(turns) * (1 - 2 * _RECOVERY + 2 * _RECOVERY * torch.cos(2 * math.pi * turns))
        cepstra = cepstra * lifter
        cepstra[:, 1:-1] *= 2  # the other half is its mirror image
        recovered: Tensor = torch.fft.rfft(cepstra, self.transform).real.exp()
        return recovered


def read_between(values: Tensor, places: Tensor) -> Tensor:
    """Read values `[H, n]` at places `[H, m]` between 0 and n - 1, by linear interpolation."""
    places = places.clamp(0, values.shape[1] - 1)
    left = places.long().clamp(max=values.shape[1] - 2)
    a, b = values.gather(1, left), values.gather(1, left + 1)
    return a + (b - a) * (places - left)
