"""Another sample rate for training speech."""

from math import gcd
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

Wave = TypeVar("Wave", bound=NDArray[np.floating[Any]])


def resampled(wave: Wave, source: int, target: int) -> Wave:
    """The samples at `target` Hz instead of `source`, by SciPy's polyphase filter; the dtype stays."""
    if source == target:
        return wave
    common = gcd(source, target)
    other: Wave = np.asarray(resample_poly(wave, target // common, source // common), wave.dtype)
    return other
