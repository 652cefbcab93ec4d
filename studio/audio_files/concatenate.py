"""Concatenation of takes, with pauses between them, into one file. Works take by take, so that memory stays bounded."""

import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, Literal

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray

from engine.audio.output.encode import CODINGS, RATES, supported_rate, to_int16
from engine.audio.output.mastering import loudness_of, master
from engine.audio.output.tags import Tags, new_sound_file
from engine.audio.output.tempo import change_tempo
from engine.audio.resample import resample
from engine.errors import InvalidInput, InvalidOption

FileFormat = Literal["wav", "flac", "mp3", "opus"]

_BLOCK = 1 << 16  # samples


@dataclass(frozen=True)
class TakeAudio:
    """A take to write: a mono file as written by `encode_audio`. pause: seconds of silence after it.

    speed: tempo factor at constant pitch. The take then has exactly round(samples / speed) samples. gain: in dB.
    """

    audio: bytes
    pause: float = 0.0
    speed: float = 1.0
    gain: float = 0.0


def concatenate_takes(
    file: BinaryIO,
    takes: Iterable[TakeAudio],
    format: FileFormat,
    tags: Tags | None = None,
    *,
    rates: tuple[int, ...] | None = None,
) -> float:
    """Write takes as one file and return its duration in seconds.

    Takes are consumed one at a time, each after the previous one is written. The first take decides the sampling rate,
    raised to a supported one for opus and mp3; takes of another rate are resampled. Takes that keep their rate and
    level are written to wav and flac unchanged, at 16 bits. There is no pause after the last take. If a take cannot be
    read, the file keeps the previous ones.

    Args:
        file: open for writing, reading and seeking.
        tags: tags of the file (`engine.audio.output.tags`).
        rates: supported sampling rates in Hz, all if empty; by default those of the format.
    Raises InvalidOption for an unknown format, InvalidInput if there are no takes or one is damaged.
    """
    if format not in CODINGS:
        raise InvalidOption("cards.format", format=format, formats="wav, flac, mp3, opus")
    container, coding = CODINGS[format]
    rate, length, pause = 0, 0, 0.0
    with ExitStack() as stack:
        for take in takes:
            with _opened(take.audio) as sound:
                if not rate:
                    rate = supported_rate(sound.samplerate, RATES.get(format, ()) if rates is None else rates)
                    out = stack.enter_context(new_sound_file(file, rate, container, coding, tags or {}))
                for block in chain(_silence(round(pause * rate)), _blocks(sound, rate, take.speed)):
                    out.write(_amplified(block, take.gain))
                    length += len(block)
            pause = take.pause
    if not rate:
        raise InvalidInput("cards.unspoken")
    return length / rate


def write_takes(
    file: BinaryIO,
    takes: Iterable[TakeAudio],
    format: FileFormat,
    tags: Tags,
    lufs: float | None,
    *,
    rates: tuple[int, ...] | None = None,
    lossy: bool = False,
) -> None:
    """Write takes as one file. lufs: target loudness; None to leave it as it is.

    rates: supported sampling rates in Hz; by default those of the format. lossy: whether the samples will be encoded
    by a lossy format later.
    """
    if lufs is None:
        concatenate_takes(file, takes, format, tags, rates=rates)
        return
    with tempfile.TemporaryFile() as plain:
        concatenate_takes(plain, takes, "wav", rates=RATES.get(format, ()) if rates is None else rates)
        master(plain, file, format, lufs, tags, lossy=lossy or format in RATES)


def take_loudness(audio: bytes) -> float:
    """Return the integrated loudness of a take in LUFS; -70 for silence or less than 0.4 s.

    Raises InvalidInput if it is damaged.
    """
    with _opened(audio) as sound:
        return loudness_of(_blocks(sound, sound.samplerate, 1.0), sound.samplerate)


def _opened(audio: bytes) -> soundfile.SoundFile:
    try:
        return soundfile.SoundFile(io.BytesIO(audio))
    except soundfile.SoundFileError as error:
        raise InvalidInput("cards.damaged_take") from error


def _amplified(block: NDArray[np.int16], gain: float) -> NDArray[np.int16]:
    """Return the samples with a gain in dB, clipped."""
    if gain == 0:
        return block
    return to_int16(block / np.float32(32768) * 10 ** (gain / 20))


def _silence(length: int) -> Iterator[NDArray[np.int16]]:
    for start in range(0, length, _BLOCK):
        yield np.zeros(min(_BLOCK, length - start), np.int16)


def _blocks(sound: soundfile.SoundFile, rate: int, speed: float) -> Iterator[NDArray[np.int16]]:
    try:
        if sound.samplerate == rate and speed == 1:
            yield from sound.blocks(_BLOCK, dtype="int16")
            return
        samples = change_tempo(sound.read(dtype="int16"), sound.samplerate, speed)
        if sound.samplerate != rate:
            floats = torch.from_numpy(samples / np.float32(32768))
            samples = to_int16(resample(floats, sound.samplerate, rate).numpy())
        yield samples
    except soundfile.SoundFileError as error:
        raise InvalidInput("cards.damaged_take") from error
