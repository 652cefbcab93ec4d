"""Decoding of audio files: soundfile for wav, flac, aiff and au, PyAV for mp3, ogg, opus, m4a/aac, webm and the rest.

Metadata of a file, above all its length, is not trusted: blocks are decoded, mixed and counted up to the limit, so that
a false header or ten hours of mp3 take no more memory or time than the longest clip allowed. Only audio formats and
codecs are tried: no pictures, and no formats that can refer to another file or address.
"""

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import av
import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.audio.resample import resample
from engine.errors import UnreadableFile, UnusableReference
from engine.files.bounded import MAX_CLIP_FILE_BYTES, open_regular

Source = bytes | str | Path

LONGEST = 90.0  # seconds
_CODEC_PADDING = 0.2  # seconds that lossy encoders may add to a clip of maximum length
LOWEST_RATE, HIGHEST_RATE = 8_000, 192_000  # Hz
_BLOCK = 1 << 18  # values decoded at a time, over all channels
_MAX_PACKETS = 20_000  # per file; 90 seconds of AAC at the highest rate are 16,900

_CANCELLED = 0.3  # level of the mean of two channels over that of the left one; a silent right one gives 0.5

_MAX_PLANES = 7  # PyAV counts planes up to an end mark, for which its list has no room after 8

# Magic bytes of the files that soundfile reads. libsndfile supports many more formats, old and little tested ones, and
# tries them all on a file that it does not recognise. Of joined ogg and mp3 files it reads only the first.
_SOUNDFILE = re.compile(
    rb"RIFF....WAVE|RIFX....WAVE|RF64....WAVE|riff\x2e\x91\xcf\x11|fLaC|FORM....AIF[FC]|\.snd", re.DOTALL
)
# For PyAV: audio containers, except those that can refer to other files or addresses, such as playlists, and audio
# codecs, none for pictures. No protocol is allowed in any case.
_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,aac,mp3,ogg,wav,w64,flac,aiff,caf,amr,asf,avi,mpegts,flv"
_CODECS = frozenset(
    """aac aac_latm mp1 mp1float mp2 mp2float mp3 mp3float opus libopus vorbis flac alac ac3 eac3 amrnb amrwb
    libopencore_amrnb libopencore_amrwb speex wmav1 wmav2 wmapro wmalossless wavpack tta gsm gsm_ms nellymoser adpcm_ms
    adpcm_ima_wav adpcm_ima_qt adpcm_swf adpcm_yamaha g722 g726 pcm_alaw pcm_mulaw pcm_u8 pcm_s8 pcm_s8_planar pcm_s16le
    pcm_s16be pcm_s24le pcm_s24be pcm_s32le pcm_s32be pcm_s64le pcm_s64be pcm_f32le pcm_f32be pcm_f64le
    pcm_f64be""".split()
)
AV_OPTIONS = {
    "format_whitelist": _CONTAINERS,
    "codec_whitelist": ",".join(sorted(_CODECS)),
    "protocol_whitelist": "none",
    "max_streams": "32",
}


@dataclass(frozen=True)
class Recording:
    """A decoded file, mixed to mono. `samples`: float32 [n] on the CPU, any scale; `sample_rate`: Hz."""

    samples: Tensor
    sample_rate: int


def decode_audio(source: Source, sample_rate: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Decode a whole file: float32 [n], mono, at `sample_rate` Hz, on `device`, without trimming or checks.

    For clips that are already prepared. Raises UnusableReference if it cannot be read.
    """
    recording = decode(source)
    return resample(recording.samples.to(device), recording.sample_rate, sample_rate)


def decode(source: Source, *, max_seconds: float | None = None) -> Recording:
    """Decode a file of at most 90 s, given as bytes or path; with `max_seconds`, at most that much of the beginning of
    a file of any length.

    Raises UnusableReference for a file that is missing, empty, not audio, too long, of an unsupported rate, or not
    finite.
    """
    readable = False
    most = LONGEST if max_seconds is None else max_seconds
    with opened_audio(source) as file:
        beginning = file.read(16)
        if not beginning:
            raise UnusableReference("reference.no_samples")
        for read in (_read_with_soundfile, _read_with_av) if _SOUNDFILE.match(beginning) else (_read_with_av,):
            file.seek(0)
            try:
                recording = read(file, most, max_seconds is not None)
            except (soundfile.SoundFileError, av.FFmpegError):
                continue
            if len(recording.samples):
                return recording
            readable = True
    raise UnusableReference("reference.no_samples" if readable else "reference.not_audio")


@contextmanager
def opened_audio(source: Source) -> Iterator[BinaryIO]:
    """Open a file, given as bytes or path, for decoding. Raises UnusableReference."""
    if isinstance(source, bytes):
        yield io.BytesIO(source)
        return
    try:
        file = open_regular(source, MAX_CLIP_FILE_BYTES)
    except UnreadableFile as error:
        raise UnusableReference(error.message.key, **error.message.values) from error
    with file:  # opened by descriptor, so that it has no name: the content decides the format, not the suffix
        yield file


class _Seekable:
    """File wrapper for soundfile, which fails on the negative offsets of damaged files."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.tell, self._file = file.read, file.tell, file

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            base = self._file.tell() if whence == io.SEEK_CUR else self._file.seek(0, io.SEEK_END)
            offset += base
        return self._file.seek(max(0, offset))


def _read_with_soundfile(file: BinaryIO, most: float, cut: bool) -> Recording:
    with soundfile.SoundFile(_Seekable(file)) as sound:
        return _collected(_soundfile_blocks(sound), sound.samplerate, most, cut)


def _soundfile_blocks(sound: soundfile.SoundFile) -> Iterator[NDArray[Any]]:
    size = max(_BLOCK // sound.channels, 1)
    while len(block := sound.read(size, dtype="float32", always_2d=True)):
        yield block.T


def _read_with_av(file: BinaryIO, most: float, cut: bool) -> Recording:
    with av.open(file, "r", options=AV_OPTIONS, metadata_errors="ignore") as container:
        stream = container.streams.best("audio")
        rate = getattr(stream, "sample_rate", None)  # a stream without a decoder lacks the attribute
        if container.streams and not container.streams.audio:
            raise UnusableReference("reference.no_samples")  # for example a film without sound
        if not isinstance(stream, av.AudioStream) or not rate or stream.codec_context.name not in _CODECS:
            raise UnusableReference("reference.not_audio")
        frames = _frames(container, stream)
        first = next(frames, None)
        rate = first.sample_rate if first else rate  # the header of HE-AAC may have half the rate
        return _collected(map(_planes, _of_one_rate(chain([first] if first else [], frames))), rate, most, cut)


def _of_one_rate(frames: Iterable[av.AudioFrame]) -> Iterator[av.AudioFrame]:
    rates = set()
    for frame in frames:
        rates.add(frame.sample_rate)
        if len(rates) > 1:
            raise UnusableReference("reference.joined")
        yield frame


def _frames(container: "av.container.InputContainer", stream: av.AudioStream) -> Iterator[av.AudioFrame]:
    for count, packet in enumerate(_packets(container, stream)):
        if count > _MAX_PACKETS:
            raise UnusableReference("reference.in_pieces")
        try:
            yield from packet.decode()
        except av.FFmpegError:  # the subclass depends on the damage
            continue  # skip the few milliseconds of a bad packet, as players do


def _packets(container: "av.container.InputContainer", stream: av.AudioStream) -> "Iterator[av.Packet[av.AudioStream]]":
    try:
        yield from container.demux(stream)
    except IndexError:  # PyAV does not support streams that begin in the middle of the file
        return
    except av.PatchWelcomeError as error:  # FFmpeg does not support ogg files whose rate or channels change
        raise UnusableReference("reference.joined") from error


def _planes(frame: av.AudioFrame) -> NDArray[Any]:
    """Return a frame's samples as floats [channels, n], full scale at 1."""
    values = _values(frame)
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    if values.dtype.kind == "u":
        return (values.astype(np.float32) - 128) / 128  # the only unsigned kind is 8 bits wide
    if values.dtype.kind == "i":
        return values.astype(np.float32) / 2.0 ** (8 * values.itemsize - 1)
    return values


def _values(frame: av.AudioFrame) -> NDArray[Any]:
    """Like `frame.to_ndarray`, which lacks 64-bit samples and reads past the last of 8 or more planes."""
    planar, channels = frame.format.is_planar, frame.layout.nb_channels
    if planar and channels > _MAX_PLANES:
        raise UnusableReference("reference.channels", channels=channels)
    if frame.format.name not in ("s64", "s64p"):
        values: NDArray[Any] = frame.to_ndarray()
        return values
    width = frame.samples * (1 if planar else channels)
    return np.stack([np.frombuffer(memoryview(plane), np.int64, width) for plane in frame.planes])


def _collected(blocks: Iterator[NDArray[Any]], rate: int, most: float = LONGEST, cut: bool = False) -> Recording:
    """Mix blocks [channels, n] to mono and concatenate up to `most` seconds. cut: cut longer files, do not raise."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise UnusableReference("reference.rate", rate=rate, least=LOWEST_RATE, most=HIGHEST_RATE)
    mixed: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
    left: list[NDArray[np.float32]] = []  # of stereo files
    room = int((most + _CODEC_PADDING) * rate)
    for block in blocks:
        mixed.append(_mono(block))
        if len(block) == 2:
            left.append(block[0].astype(np.float32))
        room -= len(mixed[-1])
        if room < 0:
            if cut:
                break
            raise UnusableReference("reference.too_long", longest=most)
    mono = np.concatenate(mixed)
    if left and _is_cancelled(mono, alone := np.concatenate(left)):
        mono = alone
    return Recording(torch.from_numpy(mono), rate)


def _is_cancelled(mono: NDArray[np.float32], left: NDArray[np.float32]) -> bool:
    """Whether one channel is the inverse of the other, as with a miswired cable: their mean is nearly silent."""
    both, one = (float(np.abs(samples).mean(dtype=np.float64)) for samples in (mono, left))
    return len(mono) == len(left) and both < _CANCELLED * one


def _mono(block: NDArray[Any]) -> NDArray[np.float32]:
    # In fp64, because the sum of two finite fp32 values may be infinite. Infinities and NaN are checked below.
    with np.errstate(invalid="ignore", over="ignore"):
        mono: NDArray[np.float32] = block.mean(axis=0, dtype=np.float64).astype(np.float32)
    if not np.isfinite(mono).all():
        raise UnusableReference("reference.not_numbers")
    return mono
