"""Streaming encoder: samples in, bytes of a file out, with at most one frame of the format held back.

    encoder = StreamEncoder("mp3", 22_050)
    for chunk in speech:
        send(encoder.encode(chunk.samples))
    send(encoder.finish())

PyAV (FFmpeg) encodes, resamples and changes the tempo. All three keep their state between chunks, so that the bytes do
not depend on how the samples are divided. `engine.audio.output.encode` writes whole takes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from numpy.typing import NDArray

from engine.audio.output.encode import RATES, supported_rate, to_int16
from engine.audio.output.frames import amplified, to_frame
from engine.audio.output.tags import Tags
from engine.audio.output.tempo import Tempo
from engine.errors import InvalidOption

StreamFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
STREAM_FORMATS: tuple[StreamFormat, ...] = get_args(StreamFormat)
LOSSY: tuple[StreamFormat, ...] = ("mp3", "opus", "aac")
SLOWEST, FASTEST = 0.25, 4.0
LOWEST_RATE, HIGHEST_RATE = 8_000, 48_000  # Hz


@dataclass(frozen=True)
class _Coding:
    """FFmpeg settings of a format. rates: supported sampling rates in Hz, all if empty. bit_rate: bits per second.

    tag_options: container options for a file with tags. whole_options: for a file whose header has its length. gain:
    makes up for that of the encoder.
    """

    container: str
    codec: str
    options: dict[str, str] = field(default_factory=dict)
    codec_options: dict[str, str] = field(default_factory=dict)
    rates: tuple[int, ...] = ()
    bit_rate: int | None = None
    tag_options: dict[str, str] = field(default_factory=dict)
    whole_options: dict[str, str] = field(default_factory=dict)
    gain: float = 1.0


_CODINGS: dict[StreamFormat, _Coding] = {
    # No header that is completed at the end, and no bit reservoir, which makes frames depend on each other.
    "mp3": _Coding(
        "mp3",
        "libmp3lame",
        {"write_xing": "0", "id3v2_version": "0"},
        {"reservoir": "0"},
        RATES["mp3"],
        96_000,
        {"id3v2_version": "4"},
        {"write_xing": "1"},
        gain=1 / 0.95,  # LAME scales by .95 at these bit rates
    ),
    "opus": _Coding("ogg", "libopus", {"page_duration": "20000"}, {}, RATES["opus"], 64_000),
    "aac": _Coding("adts", "aac", {}, {}, RATES["mp3"], 96_000, {"write_id3v2": "1"}),
    "flac": _Coding("flac", "flac", {"metadata_header_padding": "0"}),
    "wav": _Coding("wav", "pcm_s16le"),
    "pcm": _Coding("s16le", "pcm_s16le"),
}


def written_rate(format: StreamFormat, sample_rate: int) -> int:
    """Return the rate in Hz at which a format is written if `sample_rate` is requested: the next supported one."""
    return supported_rate(sample_rate, _CODINGS[format].rates)


class StreamEncoder:
    """Encoder of one stream. Not thread-safe. format, speed: as given. sample_rate: output rate in Hz."""

    def __init__(
        self,
        format: StreamFormat,
        source_rate: int,
        *,
        sample_rate: int | None = None,
        speed: float = 1.0,
        tags: Tags | None = None,
        as_whole: bool = False,
    ) -> None:
        """source_rate: Hz of the samples. sample_rate: output rate in Hz, raised to a supported one; default: source's.

        speed: 0.25 to 4, at constant pitch. tags: written at the beginning (`engine.audio.output.tags`); pcm has none.
        as_whole: `finish` returns all bytes, so that the headers of wav, flac and mp3 contain the length.
        Raises InvalidOption.
        """
        _check_options(format, speed, sample_rate)
        coding = _CODINGS[format]
        self.format, self.speed = format, speed
        self.sample_rate = written_rate(format, sample_rate or source_rate)
        self._source_rate, self._samples = source_rate, 0
        self._as_whole = as_whole
        self._written: _Whole | _Written = _Whole() if as_whole else _Written()
        self._container = av.open(
            self._written,
            "w",
            coding.container,
            options={
                "fflags": "+bitexact+flush_packets",
                **coding.options,
                **(coding.tag_options if tags else {}),
                **(coding.whole_options if as_whole else {}),
            },
        )
        self._container.metadata.update(tags or {})
        self._stream = cast(
            AudioStream, self._container.add_stream(coding.codec, self.sample_rate, coding.codec_options)
        )
        self._stream.codec_context.layout = "mono"
        if coding.gain != 1:
            self._stream.codec_context.format = "fltp"
        self._gain = coding.gain
        if coding.bit_rate:
            self._stream.codec_context.bit_rate = coding.bit_rate
        self._tempo = Tempo(source_rate, speed) if speed != 1 else None

    def encode(self, samples: NDArray[np.floating]) -> bytes:
        """Encode mono float samples [n], clipped to ±1, NaN as silence. Return the bytes that can be sent."""
        if len(samples):
            frame = to_frame(to_int16(samples), self._source_rate, self._samples)
            self._samples += len(samples)
            self._encode(self._tempo.push(frame) if self._tempo else (frame,))
        return b"" if self._as_whole else self._written.take()

    def finish(self) -> bytes:
        """Return the last bytes. If there were no samples, this is an empty file of the format."""
        if self._tempo:
            self._encode(self._tempo.finish())
        self._container.start_encoding()
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._written.take()

    def _encode(self, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            self._container.mux(self._stream.encode(frame if self._gain == 1 else amplified(frame, self._gain)))


def check_speed(speed: float) -> None:
    """Raise InvalidOption for a speed out of range."""
    if not SLOWEST <= speed <= FASTEST:
        raise InvalidOption(f"The speed is {speed:g}; choose one from {SLOWEST} to {FASTEST:g}.")


def _check_options(format: str, speed: float, sample_rate: int | None) -> None:
    if format not in _CODINGS:
        raise InvalidOption(f"There is no audio format “{format}” here: use {', '.join(STREAM_FORMATS)}.")
    check_speed(speed)
    if sample_rate is not None and not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise InvalidOption(
            f"The sample rate is {sample_rate}; choose one from {LOWEST_RATE:,} to {HIGHEST_RATE:,} Hz."
        )


class _Whole(io.BytesIO):
    """A seekable file, in which FFmpeg completes the header at the end."""

    def take(self) -> bytes:
        """Return the file."""
        return self.getvalue()


class _Written:
    """An unseekable file. `take` returns the bytes written since the last call."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data
