"""Resampling of training speech."""

from math import gcd
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

Scalar = TypeVar("Scalar", bound=np.floating[Any])


def resampled(wave: NDArray[Scalar], source: int, target: int) -> NDArray[Scalar]:
    """Resample from `source` to `target` Hz with SciPy's polyphase filter. The dtype is kept."""
    if source == target:
        return wave
    common = gcd(source, target)
    return np.asarray(resample_poly(wave, target // common, source // common), wave.dtype)
