"""Good reference speech, and functions that degrade it."""

import io

import av
import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from scipy import signal

from engine.audio import resample
from engine.audio.doctor import Finding, Report
from engine.audio.doctor.loudness import clip_loudness
from tests.paths import SPEECH

Samples = NDArray[np.float32]

RATE = 16_000


def read(name: str) -> Samples:
    samples, rate = soundfile.read(SPEECH / f"{name}.flac", dtype="float32")
    assert rate == RATE
    return np.asarray(samples, np.float32)


WOMAN, MAN = read("flite_slt_story"), read("flite_rms_story")
GAP = np.zeros(RATE // 3, np.float32)


def pause(seconds: float) -> Samples:
    return np.zeros(int(seconds * RATE), np.float32)


def beginning(samples: Samples, seconds: float) -> Samples:
    """Return the beginning of a clip, faded out so that it does not end inside a word."""
    part = samples[: int(seconds * RATE)].copy()
    part[-RATE // 10 :] *= np.linspace(1, 0, RATE // 10, dtype=np.float32)
    return part


def joined(*parts: Samples) -> Samples:
    return np.concatenate(parts)


def written(samples: Samples, rate: int = RATE, format: str = "WAV", subtype: str | None = "FLOAT") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=format, subtype=subtype)
    return file.getvalue()


def at_rate(samples: Samples, rate: int) -> Samples:
    return resample(torch.from_numpy(samples), RATE, rate).numpy()


def noisy(samples: Samples, snr: float) -> Samples:
    level = np.sqrt(np.mean(samples**2)) * 10 ** (-snr / 20)
    return (samples + np.random.default_rng(0).normal(0, level, len(samples))).astype(np.float32)


def hiss(samples: Samples) -> Samples:
    """Return one second of noise 8 dB below the clip, as a recorder with automatic gain makes in a pause."""
    return np.random.default_rng(1).normal(0, np.sqrt(np.mean(samples**2)) * 0.4, RATE).astype(np.float32)


def low_passed(samples: Samples, hertz: float) -> Samples:
    filter = signal.ellip(10, 0.1, 70, hertz, fs=RATE, output="sos")
    return np.asarray(signal.sosfiltfilt(filter, samples), np.float32)


def clipped(samples: Samples, times: float) -> Samples:
    return np.clip(samples / np.abs(samples).max() * times, -1, 1).astype(np.float32)


def humming(samples: Samples) -> Samples:
    level = np.sqrt(2 * np.mean(samples**2))
    return (samples + level * np.sin(2 * np.pi * 50 * np.arange(len(samples)) / RATE)).astype(np.float32)


def at_loudness(samples: Samples, lufs: float) -> Samples:
    return samples * np.float32(10 ** ((lufs - clip_loudness(samples, RATE)) / 20))


def intoned(samples: Samples, factor: float) -> Samples:
    """Change the pitch of a voice by linear prediction: resample the source, keep the vocal tract filter."""
    size, hop, order = 480, 120, 18
    window = np.hanning(size)
    quotient, out = np.zeros(len(samples)), np.zeros(int(len(samples) / factor) + size)
    tracts = []
    for start in range(0, len(samples) - size, hop):
        piece = samples[start : start + size].astype(np.float64)
        correlation = np.correlate(piece * window, piece * window, "full")[size - 1 : size + order]
        correlation[0] = correlation[0] * 1.0001 + 1e-9
        matrix = correlation[np.abs(np.subtract.outer(np.arange(order), np.arange(order)))]
        tracts.append(np.append(1.0, -np.linalg.solve(matrix, correlation[1:])))
        quotient[start : start + size] += signal.lfilter(tracts[-1], 1, piece) * window * hop / window.sum()
    source = signal.resample(quotient, int(len(quotient) / factor))
    for start in range(0, len(source) - size, hop):
        tract = tracts[min(int(start * factor) // hop, len(tracts) - 1)]
        out[start : start + size] += signal.lfilter([1], tract, source[start : start + size] * window)
    return (out / np.abs(out).max() * np.abs(samples).max()).astype(np.float32)


def lights(report: Report) -> dict[str, str]:
    return {finding.measure: finding.light for finding in report.findings if finding.light != "green"}


def found(report: Report, name: str) -> Finding:
    return next(finding for finding in report.findings if finding.measure == name)


def silent_film() -> bytes:
    """Return a video file without an audio stream."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as film:
        picture = film.add_stream("mpeg4", rate=5)
        picture.width = picture.height = 64
        picture.pix_fmt = "yuv420p"
        film.mux(picture.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")))
        film.mux(picture.encode(None))
    return file.getvalue()
