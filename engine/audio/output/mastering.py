"""Loudness normalisation of a finished file according to EBU R 128 and ITU-R BS.1770: a gain and a true-peak limiter.

FFmpeg's `ebur128` measures the loudness. The limiter looks ahead: the gain of each sample is a mean of the gains that
its neighbours need, so that it falls before a peak and rises after it without a step.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.audio.output.encode import CODINGS, RATES, supported_rate, wav_bytes
from engine.audio.output.frames import FilterGraph, to_frame
from engine.audio.output.tags import Tags, new_sound_file

# LUFS: podcasts; audiobooks, which have an RMS of -23 to -18 dB for ACX; broadcasting.
LOUDNESS = (-16.0, -20.0, -23.0)
SOFTEST, LOUDEST = -31.0, -14.0  # LUFS: the range that platforms require and that the limiter does not degrade
SILENT = -60.0  # LUFS: nothing to measure below this
_MAX_GAIN = 40.0  # dB
_CEILING = -1.3  # dB, of true peaks; they stay below -1 after rounding
_SOFT = -18.0  # LUFS; from here on down peaks stay below -3 dB, as ACX wants them
_SOFT_CEILING = -3.3  # dB
_LOSSY_ROOM = 1.2  # dB; lossy decoders exceed the encoded samples
_TOLERANCE = 0.1  # dB
_CORRECTIONS = 4  # of the gain, to make up for the loudness that the limiter removes
_LOOKAHEAD = 0.005  # seconds
_OVERSAMPLING = 4
_MAX_OVERSHOOT = 2.0  # ratio of true peaks to samples
_FILTER = 64  # samples around a block that the oversampling filter needs
_BLOCK = 1 << 18  # samples


def master(
    source: BinaryIO, file: BinaryIO, format: str, lufs: float, tags: Tags | None = None, *, lossy: bool = False
) -> float | None:
    """Write `source`, a mono WAV file, in `format` at a target loudness. Return the measured loudness.

    None if there is nothing to measure. True peaks stay below -1 dB, for -18 LUFS and softer below -3 dB. If limiting
    them reduces the loudness, the gain is raised again.

    Args:
        source: a 16-bit WAV file, open for reading, at a rate that the format supports.
        file: open for writing, reading and seeking.
        format: one of `CODINGS`. lufs: target integrated loudness. tags: tags of the file.
        lossy: whether the samples are or will be encoded in a lossy format.
    """
    container, coding = CODINGS[format]
    ceiling = (_CEILING if lufs > _SOFT else _SOFT_CEILING) - (_LOSSY_ROOM if lossy else 0)
    source.seek(0)
    with soundfile.SoundFile(source) as sound:
        gain, loudness = _gain(sound, lufs, ceiling)
        rate = supported_rate(sound.samplerate, RATES.get(format, ()))
        assert rate == sound.samplerate, "the source has a supported rate"
        with new_sound_file(file, rate, container, coding, tags or {}) as out:
            for block in _limited(sound, gain, ceiling):
                out.write(block)
    return loudness


def at_loudness(
    samples: NDArray[np.floating], sample_rate: int, lufs: float, *, lossy: bool = False
) -> NDArray[np.float32]:
    """Return mono float samples [n] at a target loudness, on the 16-bit grid; see `master`."""
    file = io.BytesIO()
    master(io.BytesIO(wav_bytes(samples, sample_rate)), file, "wav", lufs, lossy=lossy)
    file.seek(0)
    found: NDArray[np.float32] = soundfile.read(file, dtype="float32")[0]
    return found


def loudness_of(blocks: Iterable[NDArray[np.int16]], sample_rate: int) -> float:
    """Return the integrated loudness of mono samples in LUFS; -70 for silence or less than 0.4 s."""
    meter = FilterGraph(sample_rate, ("ebur128", "metadata=1"))
    place, loudness = 0, -70.0
    for block in chain(blocks, [None]):
        if block is not None and not len(block):
            continue
        for measured in meter.push(None if block is None else to_frame(block, sample_rate, place)):
            loudness = float(measured.metadata.get("lavfi.r128.I", loudness))
        place += 0 if block is None else len(block)
    return loudness


def _gain(sound: soundfile.SoundFile, lufs: float, ceiling: float) -> tuple[float, float | None]:
    """Return the gain in dB that gives the target loudness, and the loudness measured with it."""
    before = loudness_of(_limited(sound, 0.0, 0.0), sound.samplerate)
    if before < SILENT:
        return 0.0, None
    gain = min(lufs - before, _MAX_GAIN)
    loudness = loudness_of(_limited(sound, gain, ceiling), sound.samplerate)
    for _ in range(_CORRECTIONS):
        if abs(lufs - loudness) <= _TOLERANCE or gain >= _MAX_GAIN:
            break
        gain = min(gain + lufs - loudness, _MAX_GAIN)
        loudness = loudness_of(_limited(sound, gain, ceiling), sound.samplerate)
    return gain, loudness


def _limited(sound: soundfile.SoundFile, gain: float, ceiling: float) -> Iterator[NDArray[np.int16]]:
    """Iterate over all samples with a gain, true peaks limited to the ceiling, both in dB. Unchanged if both are 0."""
    reach = round(_LOOKAHEAD * sound.samplerate)
    context = 2 * reach + _FILTER
    factor, most = 10 ** (gain / 20), 10 ** (ceiling / 20)
    for start in range(0, sound.frames, _BLOCK):
        first = max(0, start - context)
        sound.seek(first)
        samples = sound.read(min(start + _BLOCK + context, sound.frames) - first, dtype="int16")
        inside = slice(start - first, start - first + _BLOCK)
        if gain == 0 and ceiling == 0:
            yield samples[inside]
            continue
        floats = samples.astype(np.float64) / 32768 * factor
        if np.abs(floats).max(initial=0.0) * _MAX_OVERSHOOT > most:
            floats *= _reduction(floats, most, reach)
        yield np.clip(np.rint(floats[inside] * 32768), -32768, 32767).astype(np.int16)


def _reduction(samples: NDArray[np.float64], most: float, reach: int) -> NDArray[np.float64]:
    """Return the factor per sample that limits true peaks to `most`: float64 [n]."""
    from scipy.ndimage import minimum_filter1d, uniform_filter1d
    from scipy.signal import resample_poly

    finer = np.abs(resample_poly(samples, _OVERSAMPLING, 1))
    peaks = np.maximum(np.abs(samples), finer.reshape(-1, _OVERSAMPLING).max(axis=1))
    peaks[1:] = np.maximum(peaks[1:], finer.reshape(-1, _OVERSAMPLING)[:-1].max(axis=1))
    needed = np.minimum(1.0, most / np.maximum(peaks, 1e-9))
    lowest = minimum_filter1d(needed, 2 * reach + 1, mode="nearest")
    smooth: NDArray[np.float64] = uniform_filter1d(lowest, 2 * reach + 1, mode="nearest")
    return smooth
