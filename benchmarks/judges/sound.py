"""What judges share: audio at their rate, and sound level and spectral flatness, to detect silence and noise."""

import math

import numpy as np
import torch
import torchaudio.functional as AF
from numpy.typing import NDArray
from torch import Tensor

_FRAME = 0.025  # s
_QUIET = 10 ** (-30 / 10)  # of the loudest frame's power; quieter frames are pauses
_BAND = 100.0, 5000.0  # Hz; above, much of speech is noise
SILENCE = -120.0  # dBFS


def at_rate(samples: NDArray[np.float32], sample_rate: int, rate: int) -> Tensor:
    """Resample mono samples [n] at `sample_rate` Hz. Return float32 [≈ n * rate / sample_rate]."""
    wave = torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))
    resampled: Tensor = AF.resample(wave, sample_rate, rate)
    return resampled


def level(samples: NDArray[np.float32]) -> float:
    """Return the RMS of samples [n] in dBFS; `SILENCE` when they are empty or all zero."""
    power = float(np.square(samples, dtype=np.float64).mean()) if len(samples) else 0.0
    return max(SILENCE, 10 * math.log10(power)) if power else SILENCE


def flatness(samples: NDArray[np.float32], sample_rate: int) -> float:
    """Return the median spectral flatness of all frames except pauses: the geometric over the arithmetic mean of the
    power spectrum (Gray and Markel, 1974). About 0.56 for white noise, below 0.1 for speech; nan for silence."""
    size = int(_FRAME * sample_rate)
    frames = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float64)
    power = np.square(frames).mean(axis=1)
    if not len(frames) or power.max() < 1e-12:
        return math.nan
    spectra = np.abs(np.fft.rfft(frames[power > _QUIET * power.max()] * np.hanning(size))) ** 2 + 1e-20
    frequencies = np.fft.rfftfreq(size, 1 / sample_rate)
    spectra = spectra[:, (frequencies >= _BAND[0]) & (frequencies <= _BAND[1])]
    return float(np.median(np.exp(np.log(spectra).mean(axis=1)) / spectra.mean(axis=1)))
