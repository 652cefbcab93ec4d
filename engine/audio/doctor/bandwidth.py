"""Bandwidth of the speech in a clip. Telephones and low-rate codecs remove high frequencies at any sampling rate."""

import numpy as np
from numpy.typing import NDArray

from engine.audio.doctor.spectrum import Spectra
from engine.audio.vad import Span

_BAND = 250.0  # Hz
_LOUD, _QUIET = 0.95, 0.1  # quantiles of the frames: the hiss of an s, and moments without it
_MOVES = 9.0  # dB between the two: more than in a band of 8 bins with only noise (4 to 5)
_AUDIBLE = -60.0  # dB relative to the loudest band: the hiss of an s lies at -20 to -50
_MASKS = -55.0  # dB: louder noise would mask speech in the band, so that its absence is no evidence


def bandwidth(spectra: Spectra, spans: tuple[Span, ...]) -> float:
    """Return the highest frequency of the speech in Hz, with a resolution of 250 Hz; independent of gain.

    A band contains speech if its loud moments are loud enough, and louder than its quiet ones. A band with noise that
    would mask speech counts as speech.

    Args:
        spectra: spectra of the clip at its own rate. spans: its segments of speech, at least one.
    """
    edges = np.arange(0.0, float(spectra.frequencies[-1]) + 1, _BAND)
    bands = spectra.bands(edges)
    speaking = spectra.speech(spans)
    if not speaking.any():
        return 0.0
    loud = _decibels(np.quantile(bands[speaking], _LOUD, axis=0))
    quiet = _decibels(np.quantile(bands, _QUIET, axis=0))
    top = loud.max()
    speech = (loud > top + _AUDIBLE) & (loud > quiet + _MOVES)
    return float(_BAND * _reach(speech | (quiet > top + _MASKS)))


def _reach(alive: NDArray[np.bool_]) -> int:
    """Return the number of bands up to the last with speech, where most of it and the three below have speech.

    The latter excludes whistles.
    """
    reaching = [i + 1 for i in np.flatnonzero(alive).tolist() if alive[max(i - 3, 0) : i + 1].mean() > 0.5]
    return max(reaching, default=0)


def _decibels(power: NDArray[np.float64]) -> NDArray[np.float64]:
    return 10 * np.log10(np.maximum(power, 1e-30))
