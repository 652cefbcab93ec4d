"""Audio files in: soundfile for wav, flac, ogg, opus and mp3, PyAV for m4a/aac, webm and the rest.

Nothing that a file says about itself is believed, least of all its length: blocks are decoded, mixed and
counted until the limit is passed, so a lying header or ten hours of mp3 cost no more memory or time than the
longest clip that is allowed.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import av
import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.audio.resample import resample
from engine.errors import UnusableReference

Source = bytes | str | Path

LONGEST = 90.0  # seconds
_CODEC_PADDING = 0.2  # seconds that lossy encoders add to a clip that was cut to the limit
LOWEST_RATE, HIGHEST_RATE = 8_000, 192_000  # Hz
_BLOCK = 1 << 18  # values decoded at a time, all channels together

# Containers with sound in them, and none that can name other files or addresses to open, as playlists do.
_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,aac,mp3,ogg,wav,w64,flac,aiff,caf,amr,asf,avi,mpegts,flv"

_NOT_AUDIO = "This file is not audio that can be read: use wav, flac, ogg, opus, mp3, m4a or webm."
_NO_SAMPLES = "The file holds no sound: record the clip again, or choose another file."
_DAMAGED = "The clip holds values that are not numbers (NaN or infinity): export it again."


@dataclass(frozen=True)
class Recording:
    """A decoded file, mixed to mono. `samples`: float32 [n] on the CPU, any scale; `sample_rate`: Hz."""

    samples: Tensor
    sample_rate: int


def decode_audio(source: Source, sample_rate: int, *, device: torch.device | str = "cpu") -> Tensor:
    """A whole file as it is: float32 [n], mono, at `sample_rate` Hz, on `device`; nothing trimmed or judged.

    For clips that were prepared before. Raises UnusableReference when it cannot be read.
    """
    recording = decode(source)
    return resample(recording.samples.to(device), recording.sample_rate, sample_rate)


def decode(source: Source) -> Recording:
    """Reads a file of at most 90 s: its bytes, or its path.

    Raises UnusableReference for what is missing, empty, no audio, too long, of an odd rate, or not finite.
    """
    readable = False
    with _opened(source) as file:
        if not file.read(1):
            raise UnusableReference(_NO_SAMPLES)
        for decoder in (_read_with_soundfile, _read_with_av):
            file.seek(0)
            try:
                recording = decoder(file)
            except (soundfile.SoundFileError, av.FFmpegError):
                continue
            if len(recording.samples):
                return recording
            readable = True
    raise UnusableReference(_NO_SAMPLES if readable else _NOT_AUDIO)


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115, closed below
    except (OSError, ValueError) as error:
        raise UnusableReference(f"The file {source} cannot be opened: {error}.") from error
    # Once more by its descriptor, so that it has no name: the content decides what a file is, not its ending.
    with file, open(file.fileno(), "rb", closefd=False) as nameless:
        yield nameless


def _read_with_soundfile(file: BinaryIO) -> Recording:
    with soundfile.SoundFile(file) as sound:
        blocks = sound.blocks(max(_BLOCK // sound.channels, 1), dtype="float32", always_2d=True)
        return _collected((block.T for block in blocks), sound.samplerate)


def _read_with_av(file: BinaryIO) -> Recording:
    options = {"format_whitelist": _CONTAINERS}
    with av.open(file, "r", options=options, metadata_errors="ignore") as container:
        stream = container.streams.best("audio")
        rate = getattr(stream, "sample_rate", None)  # a stream that nothing can decode has no such attribute
        if container.streams and not container.streams.audio:
            raise UnusableReference(_NO_SAMPLES)  # a film without sound, say
        if not isinstance(stream, av.AudioStream) or not rate:
            raise UnusableReference(_NOT_AUDIO)
        return _collected(_av_blocks(container, stream), rate)


def _av_blocks(container: "av.container.InputContainer", stream: av.AudioStream) -> Iterator[NDArray[Any]]:
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.FFmpegError:  # which of them, differs with the damage
            continue  # one bad packet costs its own few milliseconds, as in every player
        yield from map(_planes, frames)


def _planes(frame: av.AudioFrame) -> NDArray[Any]:
    """A frame's samples as floats [channels, n], full scale at 1."""
    values: NDArray[Any] = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    if values.dtype.kind == "u":
        return (values.astype(np.float32) - 128) / 128  # the only unsigned kind is 8 bits wide
    if values.dtype.kind == "i":
        return values.astype(np.float32) / 2.0 ** (8 * values.itemsize - 1)
    return values


def _collected(blocks: Iterator[NDArray[Any]], rate: int) -> Recording:
    """Mixes blocks [channels, n] to mono and joins them, up to the limit."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise UnusableReference(
            f"The clip has {rate:,} samples a second: use one with {LOWEST_RATE:,} to {HIGHEST_RATE:,}."
        )
    mixed: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
    room = int((LONGEST + _CODEC_PADDING) * rate)
    for block in blocks:
        mixed.append(_mono(block))
        room -= len(mixed[-1])
        if room < 0:
            raise UnusableReference(f"The clip is longer than {LONGEST:.0f} seconds: cut out the best 5 to 30 seconds.")
    return Recording(torch.from_numpy(np.concatenate(mixed)), rate)


def _mono(block: NDArray[Any]) -> NDArray[np.float32]:
    # In double: the sum of two finite floats may be none.
    mono: NDArray[np.float64] = block.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mono).all():
        raise UnusableReference(_DAMAGED)
    return mono.astype(np.float32)
