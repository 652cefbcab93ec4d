"""Encoding takes as audio files. libsndfile writes all formats; no ffmpeg program is needed."""

import io
from typing import Literal

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray

from engine.audio.output.tags import Tags, set_tags
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

# Supported sample rates; others are raised to the next one, so that nothing audible is lost.
RATES = {
    "mp3": (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    "opus": (8_000, 12_000, 16_000, 24_000, 48_000),
}


def encode_audio(
    samples: NDArray[np.floating], sample_rate: int, format: AudioFormat, tags: Tags | None = None
) -> bytes:
    """Encode a whole take as one file.

    Args:
        samples: float [n], mono. Beyond ±1 is clipped, NaN becomes silence.
        sample_rate: Hz. Opus and mp3 support few rates: the next higher one is used.
        format: "wav", "flac" (both 16 bit), "mp3", "opus" (in Ogg), or "pcm": raw 16-bit little-endian samples.
        tags: of the file (`engine.audio.output.tags`); raw samples have none.
    Raises InvalidOption for another format.
    """
    if format == "pcm":
        return to_int16(samples).astype("<i2").tobytes()
    if format not in CODINGS:
        raise InvalidOption("option.audio_format", format=format)
    rate = supported_rate(sample_rate, RATES.get(format, ()))
    if rate != sample_rate:
        # Bounded first: the filter would spread one NaN over its whole length.
        samples = resample(torch.from_numpy(_bounded(samples)), sample_rate, rate).numpy()
    container, coding = CODINGS[format]
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", rate, channels=1, format=container, subtype=coding) as out:
        set_tags(out, tags or {})
        out.write(to_int16(samples))
    return file.getvalue()


def supported_rate(sample_rate: int, rates: tuple[int, ...]) -> int:
    """The rate in Hz at which a format with these rates, in ascending order, is written; without any, each is."""
    return min((each for each in rates if each >= sample_rate), default=rates[-1] if rates else sample_rate)


def encode_flac(samples: NDArray[np.floating], sample_rate: int) -> bytes:
    """Encode as FLAC, lossless for samples on the 16-bit grid such as `Clip.samples`. See `encode_audio`."""
    return encode_audio(samples, sample_rate, "flac")


def wav_bytes(samples: NDArray[np.floating], sample_rate: int) -> bytes:
    """Encode as a 16-bit WAV file. See `encode_audio`."""
    return encode_audio(samples, sample_rate, "wav")


def to_int16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    """Convert floats in [-1, 1] to 16 bits, on the scale of decoders (32,768): decoding gives the same floats.

    Beyond ±1 is clipped, NaN becomes silence.
    """
    scaled: NDArray[np.float32] = np.rint(_bounded(samples) * 32768)
    return np.minimum(scaled, 32767).astype(np.int16)


def _bounded(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    finite: NDArray[np.float32] = np.nan_to_num(np.asarray(samples, np.float32))
    return np.clip(finite, -1, 1)
