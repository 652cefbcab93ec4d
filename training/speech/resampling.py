"""Resampling of training speech."""

from math import gcd
from typing import Any, TypeVar

import numpy as np
import scipy  # whose `signal`, which takes a second, is then imported when it is used
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.floating[Any])


def resampled(wave: NDArray[Scalar], source: int, target: int) -> NDArray[Scalar]:
    """Resample from `source` to `target` Hz with SciPy's polyphase filter. The dtype is kept."""
    if source == target:
        return wave
    common = gcd(source, target)
    return np.asarray(scipy.signal.resample_poly(wave, target // common, source // common), wave.dtype)
