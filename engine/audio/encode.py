"""Finished takes out, as whole files. libsndfile writes them all; no ffmpeg program is needed."""

import io
from typing import Literal

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray

from engine.audio.resample import resample
from engine.errors import InvalidOption

AudioFormat = Literal["wav", "flac", "mp3", "opus", "pcm"]

# (container, coding) in libsndfile's words.
CODINGS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "opus": ("OGG", "OPUS"),
}

# Rates that a coding has at all; others are raised to the next one, so nothing audible is lost.
RATES = {
    "mp3": (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    "opus": (8_000, 12_000, 16_000, 24_000, 48_000),
}


def encode_audio(samples: NDArray[np.floating], sample_rate: int, format: AudioFormat) -> bytes:
    """A whole take as one file.

    Args:
        samples: float [n], mono. Beyond ±1 is clipped, NaN becomes silence.
        sample_rate: Hz. Opus and mp3 have few rates: they get the next higher one.
        format: "wav", "flac" (both 16 bit), "mp3", "opus" (in Ogg), or "pcm": 16-bit little-endian samples
            and nothing else.
    Raises InvalidOption for another format.
    """
    if format == "pcm":
        return to_int16(samples).astype("<i2").tobytes()
    if format not in CODINGS:
        raise InvalidOption(f"There is no audio format “{format}” here: use wav, flac, mp3, opus or pcm.")
    samples, sample_rate = _at_supported_rate(samples, sample_rate, RATES.get(format, (sample_rate,)))
    container, coding = CODINGS[format]
    file = io.BytesIO()
    soundfile.write(file, to_int16(samples), sample_rate, format=container, subtype=coding)
    return file.getvalue()


def encode_flac(samples: NDArray[np.floating], sample_rate: int) -> bytes:
    """Lossless for samples on the 16-bit grid, as `Clip.samples` are. See `encode_audio`."""
    return encode_audio(samples, sample_rate, "flac")


def wav_bytes(samples: NDArray[np.floating], sample_rate: int) -> bytes:
    """A 16-bit WAV file. See `encode_audio`."""
    return encode_audio(samples, sample_rate, "wav")


def to_int16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    """Floats in [-1, 1] → 16 bits, on decoders' own scale (32,768): reading them back gives the same floats.

    Beyond ±1 is clipped, NaN becomes silence.
    """
    scaled: NDArray[np.float32] = np.rint(_bounded(samples) * 32768)
    return np.minimum(scaled, 32767).astype(np.int16)


def _bounded(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    finite: NDArray[np.float32] = np.nan_to_num(np.asarray(samples, np.float32))
    return np.clip(finite, -1, 1)


def _at_supported_rate(
    samples: NDArray[np.floating], rate: int, supported: tuple[int, ...]
) -> tuple[NDArray[np.floating], int]:
    if rate in supported:
        return samples, rate
    new_rate = min((r for r in supported if r > rate), default=supported[-1])
    # Bounded first: the filter would smear one NaN over its whole length.
    return resample(torch.from_numpy(_bounded(samples)), rate, new_rate).numpy(), new_rate
