"""Short-time spectra of a clip, for the measures of noise, bandwidth and voices."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from engine.audio.vad import Span

_WINDOW = 0.03  # seconds: two or three periods of a low voice
_EDGE = 0.1  # seconds around speech that may contain its soft edges and do not count as a pause


@dataclass(frozen=True)
class Spectra:
    """power: float32 [frames, bins], any scale. frequencies: Hz [bins]. times: the frames' middles in seconds.
    step: seconds from frame to frame."""

    power: NDArray[np.float32]
    frequencies: NDArray[np.float64]
    times: NDArray[np.float64]
    step: float

    def speech(self, spans: tuple[Span, ...]) -> NDArray[np.bool_]:
        """Return which frames lie in the segments of speech: [frames]."""
        return self._within(spans, 0.0)

    def pauses(self, spans: tuple[Span, ...]) -> NDArray[np.bool_]:
        """Return which frames lie in pauses, away from the soft edges of speech: [frames]."""
        return ~self._within(spans, _EDGE)

    def bands(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean power between adjacent edges in Hz: [frames, len(edges) - 1].

        Every band must contain a bin.
        """
        sums = np.cumsum(self.power, axis=1, dtype=np.float64)
        sums = np.concatenate((np.zeros((len(sums), 1)), sums), axis=1)
        bins = np.searchsorted(self.frequencies, edges)
        means: NDArray[np.float64] = np.diff(sums[:, bins], axis=1) / np.diff(bins)
        return means

    def _within(self, spans: tuple[Span, ...], margin: float) -> NDArray[np.bool_]:
        inside = np.zeros(len(self.times), dtype=bool)
        for start, end in spans:
            inside |= (self.times >= start - margin) & (self.times < end + margin)
        return inside


def spectra(samples: NDArray[np.float32], sample_rate: int) -> Spectra:
    """Compute power spectra in Hann windows of about 32 ms, half a window apart.

    Args:
        samples: float32 [n], mono.
        sample_rate: Hz.
    """
    size = 1 << (round(_WINDOW * sample_rate) - 1).bit_length()
    samples = np.pad(samples, (0, max(size - len(samples), 0)))
    hop = size // 2
    windows = np.lib.stride_tricks.sliding_window_view(samples, size)[::hop]
    window = np.hanning(size).astype(np.float32)
    power = power_spectra(windows * window)
    times = (np.arange(len(power), dtype=np.float64) * hop + size / 2) / sample_rate
    frequencies = np.arange(size // 2 + 1, dtype=np.float64) * (sample_rate / size)
    return Spectra(power, frequencies, times, hop / sample_rate)


def power_spectra(windows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute power spectra: [frames, n] → [frames, n // 2 + 1]."""
    # Torch's transform takes a tenth of the time of NumPy's.
    spectrum = torch.fft.rfft(torch.from_numpy(windows))
    power: NDArray[np.float32] = (spectrum.real.square() + spectrum.imag.square()).numpy()
    return power
