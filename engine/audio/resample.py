"""Resampling by torchaudio's windowed sinc, on the device of the samples."""

from fractions import Fraction

import torchaudio.functional
from torch import Tensor

# Kaiser-windowed sinc, the constants that torchaudio's documentation gives for "kaiser_best".
_QUALITY = {
    "lowpass_filter_width": 64,
    "rolloff": 0.9475937167399596,
    "resampling_method": "sinc_interp_kaiser",
    "beta": 14.769656459379492,
}

# The filter bank has as many rows as the reduced ratio's numerator: 22,050 for a clip of 44,101 Hz, several gigabytes.
# The error of a ratio with a smaller denominator is less than a millionth, which is inaudible.
_LARGEST_DENOMINATOR = 1000


def resample(samples: Tensor, rate: int, new_rate: int) -> Tensor:
    """Resample floats `[..., n]` at `rate` Hz → `[..., ≈ n * new_rate / rate]` at `new_rate` Hz, on the same device."""
    if rate == new_rate or not samples.numel():
        return samples
    ratio = Fraction(new_rate, rate).limit_denominator(_LARGEST_DENOMINATOR)
    changed: Tensor = torchaudio.functional.resample(samples, ratio.denominator, ratio.numerator, **_QUALITY)
    return changed
