"""Resampling of training speech."""

from math import gcd
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

Wave = TypeVar("Wave", bound=NDArray[np.floating[Any]])


def resampled(wave: Wave, source: int, target: int) -> Wave:
    """Resample from `source` to `target` Hz with SciPy's polyphase filter. The dtype is kept."""
    if source == target:
        return wave
    common = gcd(source, target)
    other: Wave = np.asarray(resample_poly(wave, target // common, source // common), wave.dtype)
    return other
