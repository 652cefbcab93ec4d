"""Adaptation of decoded speech to a speaker, learned from a clip and the codec's copy of it (its codes, decoded).

A small codec changes voices: each vowel gets the timbre, and sometimes the pitch, of a similar voice from its training.
The hops of a clip and of its copy are pairs of envelopes, as they should be and as they are decoded. Kernel ridge
regression, or Gaussian process regression (of voices: Pilkington, Zen and Gales, 2011), carries their differences over
to other speech.

Shapes: n samples, H hops, B bins, M bands, D cepstral coefficients, N pairs.
"""

import math
from typing import Final

import torch
from torch import Tensor

CLIP_SECONDS: Final = 4.0  # of a clip, that are learned from: similarity is .001 higher with 6
FEWEST_HOPS: Final = 80  # voiced ones, without which nothing is learned
_BANDS, _LOWEST_BAND = 40, 60.0  # mel bands, and the centre of the first one in Hz
_COEFFICIENTS = 16  # of the cepstrum, without the level
_WIDTH = 1.0  # of the kernel: root mean square over the coefficients, in standard deviations of each
_RIDGE = 3.0  # variance of noise in a pair's difference, in units of the variance of what is common to pairs alike
# Of envelopes, natural logarithms of ratios of power.
_MAX_CHANGE = math.log(4.0)  # in a band: 6 dB
_MAX_PITCH_SPREAD = 2 / 12 * math.log(2.0)  # median distance of the hops' ratios from their median: two semitones
_FULL_BELOW, _NONE_ABOVE = math.log(10**0.75), math.log(10**1.05)  # root mean square of differences: 7.5 and 10.5 dB
_DYNAMIC_RANGE = math.log(10**5.5)  # of the mean levels of a clip's bands: 55 dB
_MAX_PITCH_RATIO = 2 ** (5 / 12)


class MelBands:
    """Levels of envelopes in mel bands, and the cepstra of these."""

    def __init__(self, frequencies: Tensor) -> None:
        """frequencies: of the bins, Hz `[B]`, from 0 on."""
        mel = _mel(frequencies)
        lowest = _mel(torch.tensor(_LOWEST_BAND, dtype=torch.float32))
        places = ((mel - lowest) / (mel[-1] - lowest) * (_BANDS - 1)).clamp(min=0)
        self._between = (1 - (places[:, None] - torch.arange(_BANDS)).abs()).clamp(min=0)  # [B, M]
        self._average = self._between / self._between.sum(0)
        turns = torch.arange(1, _COEFFICIENTS + 1)[:, None] * (torch.arange(_BANDS, dtype=torch.float32) + 0.5) / _BANDS
        self._cosines = torch.cos(math.pi * turns)

    def levels(self, envelopes: Tensor) -> Tensor:
        """Average logarithmic envelopes `[H, B]` over each band → `[H, M]`."""
        return envelopes @ self._average

    def cepstra(self, levels: Tensor) -> Tensor:
        """Return the cepstra of levels `[H, M]` → `[H, D]`, without the level of all bands."""
        return levels @ self._cosines.T

    def spread(self, levels: Tensor) -> Tensor:
        """Interpolate levels `[H, M]` at all bins → `[H, B]`."""
        return levels @ self._between.T


class SpeakerAdaptation:
    """What to change in the pitch and the envelopes of decoded speech. Created by `learn_adaptation`. Immutable.

    pitch: ratio of the speaker's F0 to that of decoded speech.
    """

    def __init__(self, bands: MelBands, pitch: float, wanted: Tensor, decoded: Tensor) -> None:
        """wanted, decoded: levels of the pairs `[N, M]`."""
        self.pitch = min(max(pitch, 1 / _MAX_PITCH_RATIO), _MAX_PITCH_RATIO)
        # Not of the loudness, which is that of the loudest bands.
        differences = wanted - decoded - (wanted.logsumexp(1) - decoded.logsumexp(1))[:, None]
        level = wanted.mean(0)
        heard = level > level.max() - _DYNAMIC_RANGE  # not above the bandwidth of the recording
        apart = differences[:, heard].square().mean().sqrt()
        cepstra = bands.cepstra(decoded)
        self._bands, self._scale = bands, 1 / (cepstra.std(0) + 1e-3)
        self._pairs, self._common = cepstra * self._scale, differences.mean(0)
        # A copy that is very different lacks noise, music or a telephone's sound, which the speech should lack, too.
        self._share = float(((_NONE_ABOVE - apart) / (_NONE_ABOVE - _FULL_BELOW)).clamp(0, 1))
        noise = _RIDGE * torch.eye(len(cepstra), dtype=torch.float32)
        self._weights = torch.linalg.solve(self._likeness(self._pairs) + noise, differences - self._common)

    @property
    def nbytes(self) -> int:
        """Bytes of the pairs and their weights."""
        return int(self._pairs.nbytes + self._weights.nbytes)

    def adapted(self, f0: Tensor, envelopes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the speaker's f0 `[H]` and logarithmic envelopes `[H, B]` for those of decoded speech."""
        here = self._bands.cepstra(self._bands.levels(envelopes)) * self._scale
        differences = self._common + self._likeness(here) @ self._weights
        adapted = envelopes + self._bands.spread(differences.clamp(-_MAX_CHANGE, _MAX_CHANGE) * self._share)
        adapted += (envelopes.logsumexp(1) - adapted.logsumexp(1))[:, None]  # the power stays
        return f0 * self.pitch, adapted

    def _likeness(self, cepstra: Tensor) -> Tensor:
        """Return the kernel between cepstra `[H, D]` and those of the pairs `[H, N]`."""
        distances = torch.cdist(cepstra, self._pairs).square() / _COEFFICIENTS
        return torch.exp(-0.5 * distances / _WIDTH**2)


def learn_adaptation(
    bands: MelBands, clip: tuple[Tensor, Tensor], copy: tuple[Tensor, Tensor]
) -> SpeakerAdaptation | None:
    """Learn from f0 `[H]` and logarithmic envelopes `[H, B]` of a clip and of its decoded copy, hop by hop.

    Returns None if too little of both is voiced.
    """
    voiced = (clip[0] > 0) & (copy[0] > 0)
    if int(voiced.sum()) < FEWEST_HOPS:
        return None
    ratios = (clip[0][voiced] / copy[0][voiced]).log()
    common = ratios.median()
    agree = (ratios - common).abs().median() < _MAX_PITCH_SPREAD  # of a noisy clip, the copy may have any pitch
    pitch = math.exp(common) if agree else 1.0
    wanted, decoded = (bands.levels(each[1][voiced]) for each in (clip, copy))
    return SpeakerAdaptation(bands, pitch, wanted, decoded)


def _mel(frequencies: Tensor) -> Tensor:
    return torch.log1p(frequencies / 700)
