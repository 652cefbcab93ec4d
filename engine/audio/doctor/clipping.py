"""Detection of clipped samples."""

import numpy as np
from numpy.typing import NDArray

_TOP = 0.985  # of the largest sample of a sign: the clipping level, with tolerance for conversion
_FLAT = 3  # samples


def clipped_samples(samples: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which samples lie on a flat top or bottom of the waveform, a sign of clipping; independent of gain.

    In a clean clip these are the few around its largest peaks, up to 1 in 5,000. Lossy coding hides flat tops, but
    `peak_ratio` and `engine.audio.reference.crest_factor` still indicate clipping.

    Args:
        samples: float32 [n], mono, without an offset. Returns: bool [n].
    """
    if len(samples) < _FLAT:
        return np.zeros(len(samples), dtype=bool)
    return _flat(samples) | _flat(-samples)


def peak_ratio(samples: NDArray[np.float32]) -> float:
    """Return the ratio of the highest peaks to those nearly as high: near 1 if clipped, also after lossy coding.

    Independent of gain. The 99.9th percentile over the 99th, or the 99.5th over the 98th if less.

    Args:
        samples: float32 [n], speech only, n ≥ 1, without an offset.
    """
    usual, high, higher, highest = np.maximum(np.quantile(np.abs(samples), (0.98, 0.99, 0.995, 0.999)), 1e-12)
    return float(min(highest / high, higher / usual))


def _flat(samples: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which samples are in runs of three or more near the maximum."""
    near = samples >= _TOP * samples.max()
    runs = near[:-2] & near[1:-1] & near[2:]  # [n - 2]: a sample and the next two
    flat = np.zeros(len(samples), dtype=bool)
    for shift in range(_FLAT):
        flat[shift : shift + len(runs)] |= runs
    return flat
