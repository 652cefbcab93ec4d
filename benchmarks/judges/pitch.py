"""Pitch tracking with WORLD's Harvest (Morise, Interspeech 2017; pyworld), and comparisons of two pitch tracks."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

FLOOR, CEILING = 50.0, 600.0  # Hz
_QUIET = 10 ** (-30 / 20)  # of the loudest frame's RMS; Harvest marks much near-silence as voiced
_FRAME = 0.005  # s

Pitch = tuple[float, float]  # Hz: of the reference, of the output


def track(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float64]:
    """Track F0 of mono samples [n]. Return Hz every 5 ms, 0 where unvoiced or 30 dB below the loudest frame."""
    import pyworld  # built from source, so imported only where pitch is measured

    f0, _ = pyworld.harvest(samples.astype(np.float64), sample_rate, FLOOR, CEILING, _FRAME * 1000)
    loudness = _loudness(samples, sample_rate, len(f0))
    return cast(NDArray[np.float64], np.where(loudness > _QUIET * loudness.max(initial=0.0), f0, 0.0))


def median(f0: NDArray[np.float64]) -> float:
    """Return the median of the voiced frames in Hz; nan when fewer than 10 (50 ms) are voiced."""
    voiced = f0[f0 > 0]
    return float(np.median(voiced)) if len(voiced) >= 10 else math.nan


def correlation(pairs: Sequence[Pitch]) -> float:
    """Return Pearson's correlation of log F0 where both are known; nan for fewer than three pairs or no variance."""
    logs = _logs(pairs)
    if len(logs) < 3 or np.std(logs, axis=0).min() < 1e-9:
        return math.nan
    return float(np.corrcoef(logs[:, 0], logs[:, 1]).item(1))


def median_semitones_off(pairs: Sequence[Pitch]) -> float:
    """Return the median of |12 log2(output / reference)| over the pairs where both are known; nan when none are."""
    logs = _logs(pairs)
    return 12 * float(np.median(np.abs(np.diff(logs)))) if len(logs) else math.nan


def gross_errors(original: NDArray[np.float64], copy: NDArray[np.float64]) -> float:
    """Return the share of frames that differ by more than 20 %, of those voiced in both tracks; nan without any.

    Rabiner et al., A comparative performance study of several pitch detection algorithms, 1976.
    """
    length = min(len(original), len(copy))
    both = (original[:length] > 0) & (copy[:length] > 0)
    if not both.any():
        return math.nan
    return float(np.mean(np.abs(copy[:length][both] / original[:length][both] - 1) > 0.2))


def _logs(pairs: Sequence[Pitch]) -> NDArray[np.float64]:
    known = [pair for pair in pairs if all(math.isfinite(f0) and f0 > 0 for f0 in pair)]
    pairs_known: NDArray[np.float64] = np.asarray(known, dtype=np.float64).reshape(-1, 2)
    return cast(NDArray[np.float64], np.log2(pairs_known))


def _loudness(samples: NDArray[np.float32], sample_rate: int, frames: int) -> NDArray[np.float64]:
    """Return the RMS over 20 ms around each frame, [frames]."""
    half = int(0.01 * sample_rate)
    power = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    centres = np.round(np.arange(frames) * _FRAME * sample_rate).astype(np.int64)
    low, high = (np.clip(centres + side, 0, len(samples)) for side in (-half, half))
    return cast(NDArray[np.float64], np.sqrt((power[high] - power[low]) / np.maximum(high - low, 1)))
