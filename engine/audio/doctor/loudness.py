"""Loudness after ITU-R BS.1770-4, and normalisation to a target.

The two filters of its K-weighting are given there for 48,000 Hz only; the analogue filters behind them, which give
any rate its own coefficients, are those that G. Mansbridge, S. Finn and J. Reiss derived ("Implementation and
Evaluation of Autonomous Multi-Track Fader Control", 132nd AES Convention, 2012). At 48,000 Hz they give the
coefficients of the recommendation.
"""

import math

import numpy as np
from numpy.typing import NDArray

TARGET = -20.0  # LUFS: between broadcasting's -23 (EBU R 128) and speech online, -18 (AES TD1008)
CEILING = 10 ** (-1 / 20)  # of full scale, -1 dBFS: headroom for lossy coding

_BLOCK, _STEP = 0.4, 0.1  # seconds
_ABSOLUTE_GATE = -70.0  # LUFS
_RELATIVE_GATE = -10.0  # LU below the mean of the blocks that passed the first gate
_OFFSET = -0.691  # dB: cancels the gain of the weighting for a sine of 997 Hz

# (gain in dB, frequency in Hz, Q) of the shelf that stands for the head, and of the high-pass.
_SHELF = (3.99984385397, 1681.9744509555319, 0.7071752369554193)
_SHELF_MIDDLE = 0.499666774155  # the shelf's gain at its frequency is its whole gain to this power
_HIGH_PASS = (38.13547087613982, 0.5003270373253953)
_MEMORY = 0.25  # seconds after which both filters have decayed (their longest decay is 4 ms)


def integrated_loudness(samples: NDArray[np.float32], sample_rate: int) -> float:
    """Return the integrated loudness of one channel in LUFS; minus infinity when no block passes the gates.

    A clip shorter than one block of 0.4 s counts as one block.

    Args:
        samples: float32 [n], mono, full scale at 1.
        sample_rate: Hz.
    """
    powers = _block_powers(_weighted(samples, sample_rate), sample_rate)
    loud = powers[powers > _power(_ABSOLUTE_GATE)]
    if not len(loud):
        return -math.inf
    return _lufs(loud[loud > _power(_lufs(loud) + _RELATIVE_GATE)])


def clip_loudness(samples: NDArray[np.float32], sample_rate: int) -> float:
    """Return the integrated loudness of a clip of any scale; minus infinity for digital silence.

    The absolute gate is relative to the clip's own peak, so that a gain of x dB makes every clip x LU louder.
    """
    peak = _peak(samples)
    if peak == 0:
        return -math.inf
    return integrated_loudness(samples / np.float32(peak), sample_rate) + 20 * math.log10(peak)


def normalise_loudness(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    """Apply the gain to -20 LUFS, less where a peak would exceed -1 dBFS. Silence is unchanged."""
    loudness = clip_loudness(samples, sample_rate)
    if not math.isfinite(loudness):
        return samples
    gain = min(10 ** ((TARGET - loudness) / 20), CEILING / _peak(samples))
    # In double: the gain of a clip whose full scale is 1e30 underflows in single precision.
    return (samples.astype(np.float64) * gain).astype(np.float32)


def _peak(samples: NDArray[np.float32]) -> float:
    return float(np.abs(samples).max(initial=0))


def _weighted(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """Apply both filters by their frequency response, piece by piece."""
    before = int(_MEMORY * rate)
    size = 1 << (4 * before).bit_length()
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)  # z^-1
    response = (_shelf(rate, turn) * _high_pass(rate, turn)).astype(np.complex64)
    padded = np.pad(samples, (before, 0))
    weighted = np.empty_like(samples)
    for start in range(0, len(samples), size - before):
        piece = np.fft.irfft(np.fft.rfft(padded[start : start + size], size) * response, size)
        # The circular convolution wraps the end of a piece into its beginning, which is not used.
        part = weighted[start : start + size - before]
        part[:] = piece[before : before + len(part)]
    return weighted


def _shelf(rate: int, turn: NDArray[np.complex128]) -> NDArray[np.complex128]:
    gain, frequency, q = _SHELF
    k, high = math.tan(math.pi * frequency / rate), 10 ** (gain / 20)
    middle = high**_SHELF_MIDDLE
    above = (high + middle * k / q + k * k, 2 * (k * k - high), high - middle * k / q + k * k)
    return _biquad(above, (1 + k / q + k * k, 2 * (k * k - 1), 1 - k / q + k * k), turn)


def _high_pass(rate: int, turn: NDArray[np.complex128]) -> NDArray[np.complex128]:
    frequency, q = _HIGH_PASS
    k = math.tan(math.pi * frequency / rate)
    below = (1 + k / q + k * k, 2 * (k * k - 1), 1 - k / q + k * k)
    # The recommendation leaves the numerator at 1, -2, 1, once the denominator begins with 1.
    return _biquad((below[0], -2 * below[0], below[0]), below, turn)


def _biquad(
    above: tuple[float, float, float], below: tuple[float, float, float], turn: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Response of a filter of second order, coefficients from z^0 to z^-2."""
    response: NDArray[np.complex128] = np.polyval(above[::-1], turn) / np.polyval(below[::-1], turn)
    return response


def _block_powers(weighted: NDArray[np.float32], rate: int) -> NDArray[np.float64]:
    """Return the mean squares of blocks of 0.4 s, every 0.1 s."""
    block = min(round(_BLOCK * rate), len(weighted))
    if block == 0:
        return np.zeros(0)
    sums = np.concatenate(([0.0], np.cumsum(weighted.astype(np.float64) ** 2)))
    starts = np.arange(0, len(weighted) - block + 1, max(round(_STEP * rate), 1))
    powers: NDArray[np.float64] = (sums[starts + block] - sums[starts]) / block
    return powers


def _power(lufs: float) -> float:
    return float(10 ** ((lufs - _OFFSET) / 10))


def _lufs(powers: NDArray[np.float64]) -> float:
    return _OFFSET + 10 * math.log10(float(powers.mean()))
