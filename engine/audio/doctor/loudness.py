"""Loudness according to ITU-R BS.1770-4, and normalisation to a target."""

import math

import numpy as np
from numpy.typing import NDArray

TARGET = -20.0  # LUFS: between broadcasting, -23 (EBU R 128), and online speech, -18 (AES TD1008)
CEILING = 10 ** (-1 / 20)  # of full scale, -1 dBFS: headroom for lossy coding

_BLOCK = 0.4  # seconds


def integrated_loudness(samples: NDArray[np.float32], sample_rate: int) -> float:
    """Return the integrated loudness of one channel in LUFS; minus infinity if no block passes the gates.

    A clip shorter than one block of 0.4 s counts as one block.

    Args:
        samples: float32 [n], mono, full scale at 1.
        sample_rate: Hz.
    """
    if not len(samples):
        return -math.inf
    from pyloudnorm import Meter  # imported only here, because it imports SciPy

    # "DeMan" gives the coefficients of the recommendation at 48,000 Hz; the default approximates them.
    meter = Meter(sample_rate, "DeMan", block_size=min(_BLOCK, math.nextafter(len(samples) / sample_rate, 0)))
    with np.errstate(divide="ignore", invalid="ignore"):  # the logarithm of silent blocks
        return float(meter.integrated_loudness(samples))


def clip_loudness(samples: NDArray[np.float32], sample_rate: int) -> float:
    """Return the integrated loudness of a clip of any scale; minus infinity for digital silence.

    The absolute gate is relative to the clip's own peak, so that a gain of x dB makes every clip x LU louder.
    """
    peak = _peak(samples)
    if peak == 0:
        return -math.inf
    return integrated_loudness(samples / np.float32(peak), sample_rate) + 20 * math.log10(peak)


def apply_target_gain(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    """Apply the gain that gives -20 LUFS, or less if a peak would exceed -1 dBFS. Silence stays unchanged."""
    loudness = clip_loudness(samples, sample_rate)
    if not math.isfinite(loudness):
        return samples
    gain = min(10 ** ((TARGET - loudness) / 20), CEILING / _peak(samples))
    # In fp64: the gain of a clip with a full scale of 1e30 underflows in fp32.
    return (samples.astype(np.float64) * gain).astype(np.float32)


def _peak(samples: NDArray[np.float32]) -> float:
    return float(np.abs(samples).max(initial=0))
