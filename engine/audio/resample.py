"""Resampling with torchaudio's windowed sinc, on the device of the samples."""

from fractions import Fraction

import torch
from torch import Tensor
from torchaudio.transforms import Resample

from engine.byte_lru import ByteLRU

# Kaiser-windowed sinc with the constants of "kaiser_best" in torchaudio's documentation.
_QUALITY = {
    "lowpass_filter_width": 64,
    "rolloff": 0.9475937167399596,
    "resampling_method": "sinc_interp_kaiser",
    "beta": 14.769656459379492,
}

# The filter bank has as many rows as the numerator of the reduced ratio: 22,050, or several gigabytes, for a clip of
# 44,101 Hz. Limiting the denominator changes unusual ratios, by at most about 0.05 %: less than a hundredth of a
# semitone, which is inaudible, and 15 ms in a clip of 30 s.
_LARGEST_DENOMINATOR = 1000

_CACHE_BYTES = 16 << 20  # usual rates need less than 1 MB each, odd ones up to 30 MB

_filters: ByteLRU[tuple[Fraction, torch.device], Resample] = ByteLRU(_CACHE_BYTES)


def resample(samples: Tensor, rate: int, new_rate: int) -> Tensor:
    """Resample float32 `[..., n]` at `rate` Hz → `[..., ≈ n * new_rate / rate]` at `new_rate` Hz, on the same device.

    Thread-safe. The filter bank of a ratio is computed once per device and kept while it fits into the cache.
    """
    if rate == new_rate or not samples.numel():
        return samples
    ratio = Fraction(new_rate, rate).limit_denominator(_LARGEST_DENOMINATOR)
    changed: Tensor = _filter(ratio, samples.device)(samples)
    return changed


def _filter(ratio: Fraction, device: torch.device) -> Resample:
    def compute() -> Resample:
        # In fp64 on the CPU: exact to the last bits of fp32, and the same on all devices.
        exact = Resample(ratio.denominator, ratio.numerator, **_QUALITY, dtype=torch.float64)
        return exact.to(device, torch.float32)

    return _filters.computed((ratio, device), compute, lambda made: sum(bank.nbytes for bank in made.buffers()))
