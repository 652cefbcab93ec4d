"""Audiobooks: one .m4b file with chapters and a cover, written with PyAV (FFmpeg)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import BinaryIO, cast

import av
import numpy as np
import soundfile
from av.audio.stream import AudioStream
from av.stream import Disposition
from PIL import Image

from engine.audio.output.frames import to_frame
from engine.audio.output.tags import Tags

BIT_RATE = 64_000  # bits per second, for mono speech
_BLOCK = 1 << 16  # samples
_NERO = 255  # maximum of chapters, and of bytes of a title, in Nero's list; QuickTime's has no limits


@dataclass(frozen=True)
class Chapter:
    """A chapter. start: seconds."""

    start: float
    title: str


def write_audiobook(
    source: BinaryIO, file: BinaryIO, title: str, chapters: Sequence[Chapter], cover: bytes | None, tags: Tags
) -> None:
    """Encode a mono 16-bit WAV file as AAC in MP4, with chapters.

    Args:
        source: open for reading, at a rate that AAC supports. file: open for writing and seeking.
        chapters: in order; the first begins at 0. cover: as `make_cover` returns it. tags: further tags.
    """
    source.seek(0)
    options = {"brand": "M4B ", **({} if _fits_nero(chapters) else {"movflags": "disable_chpl"})}
    with soundfile.SoundFile(source) as sound, av.open(file, "w", "mp4", options=options) as book:
        rate = sound.samplerate
        book.metadata.update({**tags, "title": title, "album": title, "genre": "Audiobook"})
        stream = cast(AudioStream, book.add_stream("aac", rate))
        stream.codec_context.layout, stream.codec_context.bit_rate = "mono", BIT_RATE
        book.set_chapters(_marks(chapters, sound.frames / rate))
        if cover is not None:
            _add_cover(book, cover)
        place = 0
        for block in sound.blocks(_BLOCK, dtype="int16"):
            book.mux(stream.encode(to_frame(block, rate, place)))
            place += len(block)
        book.mux(stream.encode(None))


def _fits_nero(chapters: Sequence[Chapter]) -> bool:
    """Whether Nero's list holds all chapters. FFmpeg would cut it off, and some players prefer it to QuickTime's."""
    return len(chapters) <= _NERO and all(len(chapter.title.encode()) <= _NERO for chapter in chapters)


def _marks(chapters: Sequence[Chapter], end: float) -> list[av.container.Chapter]:
    ends = [chapter.start for chapter in chapters[1:]] + [end]
    return [
        {
            "id": number,
            "start": round(chapter.start * 1000),
            "end": round(until * 1000),
            "time_base": Fraction(1, 1000),
            "metadata": {"title": chapter.title},
        }
        for number, (chapter, until) in enumerate(zip(chapters, ends, strict=True))
    ]


def _add_cover(book: av.container.OutputContainer, cover: bytes) -> None:
    with Image.open(io.BytesIO(cover)) as picture:
        size = max(2, picture.width // 2 * 2), max(2, picture.height // 2 * 2)  # even, for chroma subsampling
        pixels = np.asarray(picture.resize(size))
    stream = book.add_stream("mjpeg", rate=1)
    stream.width, stream.height, stream.pix_fmt = *size, "yuvj420p"
    stream.disposition = Disposition.attached_pic
    frame = av.VideoFrame.from_ndarray(pixels, "rgb24").reformat(format="yuvj420p")
    book.mux([*stream.encode(frame), *stream.encode(None)])
