"""Encoding of takes as audio files with libsndfile. No ffmpeg program is needed."""

import io
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from engine.audio.output.tags import Tags, new_sound_file
from engine.audio.resample import resample
from engine.errors import InvalidOption

AudioFormat = Literal["wav", "flac", "mp3", "opus", "pcm"]

# (container, coding) as libsndfile names them.
CODINGS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "opus": ("OGG", "OPUS"),
}

# Supported sampling rates. Others are raised to the next one, so that nothing audible is lost.
RATES = {
    "mp3": (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    "opus": (8_000, 12_000, 16_000, 24_000, 48_000),
}


def encode_audio(
    samples: NDArray[np.floating], sample_rate: int, format: AudioFormat, tags: Tags | None = None
) -> bytes:
    """Encode a whole take as one file.

    Args:
        samples: float [n], mono, clipped to ±1, NaN as silence.
        sample_rate: Hz. Opus and mp3 support few rates; the next higher one is used.
        format: "wav", "flac" (both 16 bit), "mp3", "opus" (in Ogg), or "pcm" (raw 16-bit little-endian samples).
        tags: tags of the file (`engine.audio.output.tags`); pcm has none.
    Raises InvalidOption for an unknown format.
    """
    if format == "pcm":
        return to_int16(samples).astype("<i2").tobytes()
    if format not in CODINGS:
        raise InvalidOption("option.audio_format", format=format)
    rate = supported_rate(sample_rate, RATES.get(format, ()))
    if rate != sample_rate:
        # Bounded first, because the filter would spread one NaN over its whole length.
        samples = resample(torch.from_numpy(_bounded(samples)), sample_rate, rate).numpy()
    container, coding = CODINGS[format]
    file = io.BytesIO()
    with new_sound_file(file, rate, container, coding, tags or {}) as out:
        out.write(to_int16(samples))
    return file.getvalue()


def supported_rate(sample_rate: int, rates: tuple[int, ...]) -> int:
    """Return the lowest of `rates` (Hz, ascending) that is at least `sample_rate`, else the highest.

    Empty `rates` means that all are supported.
    """
    return min((each for each in rates if each >= sample_rate), default=rates[-1] if rates else sample_rate)


def wav_bytes(samples: NDArray[np.floating], sample_rate: int) -> bytes:
    """Encode as a 16-bit WAV file. See `encode_audio`."""
    return encode_audio(samples, sample_rate, "wav")


def to_int16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    """Convert floats to 16 bits with the scale of decoders (32,768), so that decoding gives the same floats.

    Samples are clipped to ±1, and NaN becomes silence.
    """
    scaled: NDArray[np.float32] = np.rint(_bounded(samples) * 32768)
    return np.minimum(scaled, 32767).astype(np.int16)


def _bounded(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    finite: NDArray[np.float32] = np.nan_to_num(np.asarray(samples, np.float32))
    return np.clip(finite, -1, 1)
