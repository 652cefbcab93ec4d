"""Targets of the decoder whose periods are where the decoder put its own.

Codes say how high a voice is, not when its vocal folds close. A decoder has to choose the phase, and compared with the
original it is wrong by chance: what it can learn then is the mean over all phases, in which harmonics are smeared and
the voice sounds rough. So its output is compared with the original after each period has been moved to the nearest
period of the output, as PSOLA does (Moulines and Charpentier, 1990). Then harmonics have one right place.

Shapes: B batch, n samples, T points in time.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from training.codec.losses.audio import pitch_of
from training.codec.losses.periods import read_between

_HOP = 0.005  # seconds between the points whose shifts are known; interpolated between them
_PITCH_HOP = 4  # points between two estimates of F0
_WINDOW_PERIODS = 2.5  # of the lowpass that separates the fundamental: zero at .8 F0
_FARTHEST = 1.5  # periods; beyond it, the nearest period is taken again
_FAINTEST = 0.03  # of the loudest fundamental; the phase of fainter ones is not followed
_SMOOTHED = 5  # points


@torch.no_grad()
def aligned_with(copy: Tensor, original: Tensor, sample_rate: int) -> Tensor:
    """Return `original` with its periods moved to those of `copy`, all `[B, 1, n]`.

    Unvoiced sounds and pauses stay where they are.
    """
    n, hop = original.shape[-1], round(_HOP * sample_rate)
    points = torch.arange(hop // 2, n, hop, device=original.device)
    f0, voiced = pitch_of(original, sample_rate, _PITCH_HOP * hop)
    at = (points // (_PITCH_HOP * hop)).clamp(max=f0.shape[1] - 1)
    f0, voiced = _filled(2**f0, voiced)[:, at], voiced[:, at]
    fundamentals = _fundamentals(torch.cat([copy, original], 1), f0, voiced, sample_rate)[..., points]
    loud = fundamentals.abs() > _FAINTEST * fundamentals.abs().amax(-1, keepdim=True)
    ahead = (fundamentals[:, 0] * fundamentals[:, 1].conj()).angle() / (2 * math.pi)  # periods
    shift = _followed(ahead, voiced & loud.all(1)) * sample_rate / f0
    places = (torch.arange(n, device=original.device) + _smoothed(shift, n)).clamp(0, n - 1)
    return read_between(original[:, 0], places)[:, None]


def _filled(f0: Tensor, voiced: Tensor) -> Tensor:
    """Replace the undefined F0 of unvoiced frames by the utterance's mean."""
    usual = (f0 * voiced).sum(-1, keepdim=True) / voiced.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(voiced, f0, torch.where(usual > 0, usual, 1.0))


def _fundamentals(audio: Tensor, f0: Tensor, voiced: Tensor, sample_rate: int) -> Tensor:
    """Return the analytic fundamentals of audio `[B, 2, n]` relative to one common carrier, complex `[B, 2, n]`."""
    n = audio.shape[-1]
    contour = F.interpolate(f0[:, None], size=n, mode="linear", align_corners=False)[:, 0]
    phase = torch.cumsum(2 * math.pi / sample_rate * contour.double(), -1)
    mean = (f0 * voiced).sum(-1) / voiced.sum(-1).clamp(min=1)
    size = _WINDOW_PERIODS * sample_rate / mean.clamp(min=20)[:, None]
    distance = torch.arange(2 * n, device=audio.device)
    distance = torch.minimum(distance, 2 * n - distance)
    window = torch.where(distance < size / 2, 0.5 + 0.5 * torch.cos(2 * math.pi * distance / size), 0.0)
    moved = audio * torch.polar(torch.ones_like(phase), -phase).to(torch.complex64)[:, None]
    spectra = torch.fft.fft(moved, 2 * n) * torch.fft.fft(window / window.sum(-1, keepdim=True))[:, None]
    found: Tensor = torch.fft.ifft(spectra)
    return found[..., :n]


def _followed(ahead: Tensor, sure: Tensor) -> Tensor:
    """Make phases `[B, T]`, known in periods up to whole ones, continuous as long as they are sure; elsewhere 0."""
    found, last, known = torch.zeros_like(ahead), ahead[:, 0], sure[:, 0]
    for t, (phase, now) in enumerate(zip(ahead.unbind(1), sure.unbind(1), strict=True)):
        near = phase + torch.round(last - phase)
        last = torch.where(known & (near.abs() <= _FARTHEST), near, phase)
        found[:, t], known = torch.where(now, last, 0.0), now
    return found


def _smoothed(shift: Tensor, n: int) -> Tensor:
    """Return shifts `[B, T]` of all n samples."""
    window = torch.hann_window(_SMOOTHED + 2, periodic=False, device=shift.device)[1:-1]
    padded = F.pad(shift[:, None], (_SMOOTHED // 2, _SMOOTHED // 2), mode="replicate")
    smooth = F.conv1d(padded, (window / window.sum())[None, None])
    return F.interpolate(smooth, size=n, mode="linear", align_corners=False)[:, 0]
