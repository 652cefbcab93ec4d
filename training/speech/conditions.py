"""Recording conditions: rooms, noise, music, cheap microphones, telephones and codecs.

The dual AR is trained with them in references only, so that it copies the voice and ignores the conditions.
"""

import io

import numpy as np
import scipy  # as in `resampling`
import soundfile
from numpy.typing import NDArray

from training.speech.resampling import resampled

Wave = NDArray[np.float32]
_TELEPHONE_RATE = 8000  # Hz
_SCALE = (0, 3, 5, 7, 10, 12, 15, 17, 19, 22, 24)  # semitones of a pentatonic scale


def degraded(wave: Wave, rate: int, rng: np.random.Generator) -> Wave:
    """Apply conditions drawn from `rng` to samples `[n]` in [-1, 1] at `rate` Hz. Return `[n]`, time-aligned."""
    out = wave.astype(np.float64)
    if rng.random() < 0.5:
        out = in_a_room(out, rate, rng)
    if rng.random() < 0.6:
        out = coloured(out, rate, rng)
    if rng.random() < 0.3:
        out = band_limited(out, rate, rng)
    if rng.random() < 0.7:
        out = noisy(out, rng)
    if rng.random() < 0.15:
        out = with_music(out, rate, rng)
    out = at_level(out, rng)
    if rng.random() < 0.15:
        out = telephoned(out, rate)
    if rng.random() < 0.2:
        out = compressed(out, rate, rng)
    return out.astype(np.float32)


def in_a_room(wave: NDArray[np.float64], rate: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Add reverberation: noise that decays by 60 dB within 0.1 to 0.5 s."""
    seconds = rng.uniform(0.1, 0.5)
    time = np.arange(int(seconds * rate)) / rate
    tail = rng.standard_normal(len(time)) * 10 ** (-3 * time / seconds)
    tail[: int(0.002 * rate)] = 0.0
    tail *= rng.uniform(0.1, 0.6) / np.sqrt(np.square(tail).sum())
    tail[0] = 1.0
    return np.asarray(scipy.signal.fftconvolve(wave, tail)[: len(wave)])


def coloured(wave: NDArray[np.float64], rate: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Apply a spectral tilt: up to 9 dB between the bands below and above a frequency."""
    split = np.exp(rng.uniform(np.log(300), np.log(4000)))
    low = scipy.signal.sosfilt(scipy.signal.butter(1, split, "low", fs=rate, output="sos"), wave)
    gain = 10 ** (rng.uniform(-9, 9) / 20)
    return np.asarray(low + gain * (wave - low))


def band_limited(wave: NDArray[np.float64], rate: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Limit the bandwidth, like a telephone or an old recorder."""
    high = np.exp(rng.uniform(np.log(3400), np.log(8000)))
    sections = scipy.signal.butter(4, high, "low", fs=rate, output="sos")
    if rng.random() < 0.5:
        sections = np.concatenate(
            (sections, scipy.signal.butter(2, rng.uniform(60, 250), "high", fs=rate, output="sos"))
        )
    return np.asarray(scipy.signal.sosfilt(sections, wave))


def noisy(wave: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Add noise between white and brown, 12 to 45 dB below the speech."""
    spectrum = np.fft.rfft(rng.standard_normal(len(wave)))
    spectrum /= np.maximum(1, np.arange(len(spectrum))) ** rng.uniform(0, 1)
    noise = np.fft.irfft(spectrum, len(wave))
    power = np.square(wave).mean() / max(float(np.square(noise).mean()), 1e-20)
    return np.asarray(wave + noise * np.sqrt(power) * 10 ** (-rng.uniform(12, 45) / 20))


def with_music(wave: NDArray[np.float64], rate: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Add chords of plucked strings, 8 to 25 dB below the speech."""
    music = np.zeros(len(wave))
    beat = rng.uniform(0.25, 0.7)
    lowest = rng.uniform(80, 200)
    for start in range(0, len(wave), max(1, int(beat * rate))):
        for step in rng.choice(_SCALE, 3, replace=False):
            music[start:] += _plucked(lowest * 2 ** (step / 12), len(wave) - start, rate, rng)
    power = np.square(wave).mean() / max(float(np.square(music).mean()), 1e-20)
    return np.asarray(wave + music * np.sqrt(power) * 10 ** (-rng.uniform(8, 25) / 20))


def _plucked(hertz: float, samples: int, rate: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a decaying tone of eight harmonics, [samples]."""
    time = np.arange(min(samples, 2 * rate)) / rate
    harmonics = np.arange(1, 9)[:, None]
    tones = np.sin(2 * np.pi * hertz * harmonics * time + rng.uniform(0, 2 * np.pi, (8, 1))) / harmonics
    sound = (tones * np.exp(-3 * time * harmonics**0.5)).sum(0)
    return np.asarray(np.pad(sound, (0, samples - len(sound))))


def telephoned(wave: NDArray[np.float64], rate: int) -> NDArray[np.float64]:
    """Simulate a telephone: 8 kHz, 300 to 3,400 Hz, 8-bit µ-law (ITU-T G.711)."""
    narrow = resampled(wave, rate, _TELEPHONE_RATE)
    narrow = scipy.signal.sosfilt(scipy.signal.butter(2, (300, 3400), "band", fs=_TELEPHONE_RATE, output="sos"), narrow)
    companded = np.sign(narrow) * np.log1p(255 * np.abs(narrow).clip(0, 1)) / np.log1p(255)
    companded = np.round(companded * 127) / 127
    narrow = np.sign(companded) * np.expm1(np.abs(companded) * np.log1p(255)) / 255
    return resampled(narrow, _TELEPHONE_RATE, rate)[: len(wave)]


def at_level(wave: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Change the level by -12 to +6 dB, and clip."""
    return np.clip(wave * 10 ** (rng.uniform(-12, 6) / 20), -1, 1)


def compressed(wave: NDArray[np.float64], rate: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Encode and decode as MP3 at a low bit rate."""
    file = io.BytesIO()
    soundfile.write(file, wave, rate, format="MP3", compression_level=rng.uniform(0.6, 0.95))
    file.seek(0)
    decoded, _ = soundfile.read(file, dtype="float64")
    return np.asarray(np.pad(decoded, (0, max(0, len(wave) - len(decoded))))[: len(wave)])
