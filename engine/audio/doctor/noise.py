"""Noise, and rumble and hum below the voice."""

import math

import numpy as np
from numpy.typing import NDArray

from engine.audio.doctor.spectrum import Spectra
from engine.audio.vad import Span

MAX_SNR = 60.0  # dB: higher values sound the same, and digital silence would be infinite

_LOWEST, _HIGHEST = 80.0, 7_900.0  # Hz: from above mains hum to just below the Nyquist frequency of 16 kHz
_LEAST_PAUSE = 0.3  # total seconds of pauses that a measurement needs
_MEDIAN = math.log(2)  # median over mean of the power of noise in one bin, which is exponentially distributed

# Steady noise shows through speech: at each frequency in the quietest moments, and between the harmonics of a voice,
# which are the only gaps in humming or singing.
_SMOOTH = 0.08  # seconds
_QUIETEST = 0.05  # quantile of the moments
_BETWEEN, _LOW = 9, 0.25  # bins, 280 Hz: more than the pitch of most voices; and the quantile between harmonics
_FLOOR = 0.37  # share of the power of white noise that these two quantiles measure

# No voice is lower than 65 Hz for more than a moment; mains hum (50 or 60 Hz), fans, wind and handling are.
VOICE_BEGINS = 65.0  # Hz
_CUT = (55.0, 75.0)  # Hz: silence below the first, all of the voice above the second


def signal_to_noise(spectra: Spectra, spans: tuple[Span, ...]) -> float:
    """Return the signal-to-noise ratio from 80 to 7,900 Hz, 0 to 60 dB; independent of gain.

    The noise is that of the pauses, and at least the noise that shows through speech, so that clips with no or muted
    pauses can be measured. Clean speech then has 29 to 44 dB.

    Args:
        spectra: spectra of the clip at 16 kHz. spans: its segments of speech, at least one.
    """
    power = spectra.power[:, (spectra.frequencies >= _LOWEST) & (spectra.frequencies < _HIGHEST)]
    speaking, pausing = spectra.speech(spans), spectra.pauses(spans)
    if not speaking.any():
        return 0.0
    noise = _through_speech(power[speaking], max(round(_SMOOTH / spectra.step), 1))
    if pausing.sum() * spectra.step >= _LEAST_PAUSE:
        noise = np.maximum(noise, _in_pauses(power[pausing]))
    total, quiet = float(power[speaking].mean(axis=0, dtype=np.float64).sum()), float(noise.sum())
    if total <= quiet:
        return 0.0
    return min(max(10 * math.log10((total - quiet) / max(quiet, total * 1e-9)), 0.0), MAX_SNR)


def _in_pauses(power: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the noise power in each bin of frames of pauses [frames, bins].

    It is the median, which ignores breaths and clicks, averaged over a few bins, because the maximum of two uncertain
    estimates is biased.
    """
    median = np.pad(np.median(power, axis=0), _BETWEEN // 2, "edge") / _MEDIAN
    noise: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(median, _BETWEEN).mean(axis=-1)
    return noise


def _through_speech(power: NDArray[np.float32], window: int) -> NDArray[np.float64]:
    """Return the noise power in each bin of frames of speech [frames, bins], smoothed over `window` frames."""
    moments = np.lib.stride_tricks.sliding_window_view(power, min(window, len(power)), axis=0).mean(axis=-1)
    quietest = np.quantile(moments, _QUIETEST, axis=0)
    around = np.pad(quietest, _BETWEEN // 2, "edge")
    between: NDArray[np.float64] = np.quantile(
        np.lib.stride_tricks.sliding_window_view(around, _BETWEEN), _LOW, axis=-1
    )
    return between / _FLOOR


def rumble(samples: NDArray[np.float32], sample_rate: int) -> float:
    """Return the power below 65 Hz over the power above, in dB; -100 if there is none. A DC offset does not count.

    Args:
        samples: float32 [n], mono.
    """
    size = 1 << len(samples).bit_length()  # FFTs of lengths with a large prime factor are slow
    power = np.square(np.abs(np.fft.rfft(samples - samples.mean(), size)))
    first = math.ceil(VOICE_BEGINS * size / sample_rate)
    low, high = float(power[:first].sum(dtype=np.float64)), float(power[first:].sum(dtype=np.float64))
    return 10 * math.log10(max(low / high, 1e-10)) if high else -100.0


def remove_rumble(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    """Apply a zero-phase high-pass with a transition from 55 to 75 Hz, which keeps the lowest voices. Same length."""
    beyond = min(sample_rate // 4, len(samples) - 1)
    # Odd reflection continues a hum beyond both ends, so that it is also removed there.
    extended = np.pad(samples, beyond, "reflect", reflect_type="odd")
    size = 1 << len(extended).bit_length()
    frequencies = np.fft.rfftfreq(size, 1 / sample_rate)
    place = np.clip((frequencies - _CUT[0]) / (_CUT[1] - _CUT[0]), 0, 1)
    gain = np.square(np.sin(np.pi / 2 * place)).astype(np.float32)
    kept = np.fft.irfft(np.fft.rfft(extended, size) * gain, size)[beyond : beyond + len(samples)]
    return kept.astype(np.float32, copy=False)
