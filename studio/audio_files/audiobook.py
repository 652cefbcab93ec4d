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
from PIL import Image, UnidentifiedImageError

from engine.audio.output.frames import to_frame
from engine.audio.output.tags import Tags
from engine.errors import InvalidInput

BIT_RATE = 64_000  # bits per second, for mono speech
COVER = 1_400  # maximum pixels of the longer side
_MAX_PIXELS = 50_000_000
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
        chapters: in order; the first begins at 0. cover: a picture of any common format. tags: further tags.
    Raises InvalidInput if the cover is not a picture.
    """
    picture = None if cover is None else _picture(cover)
    source.seek(0)
    options = {"brand": "M4B ", **({} if _fits_nero(chapters) else {"movflags": "disable_chpl"})}
    with soundfile.SoundFile(source) as sound, av.open(file, "w", "mp4", options=options) as book:
        rate = sound.samplerate
        book.metadata.update({**tags, "title": title, "album": title, "genre": "Audiobook"})
        stream = cast(AudioStream, book.add_stream("aac", rate))
        stream.codec_context.layout, stream.codec_context.bit_rate = "mono", BIT_RATE
        book.set_chapters(_marks(chapters, sound.frames / rate))
        if picture is not None:
            _add_cover(book, picture)
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


def _picture(cover: bytes) -> Image.Image:
    try:
        with Image.open(io.BytesIO(cover)) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise InvalidInput("cards.bad_cover")
            picture = image.convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        raise InvalidInput("cards.bad_cover") from error
    picture.thumbnail((COVER, COVER))
    even = (max(2, picture.width // 2 * 2), max(2, picture.height // 2 * 2))  # for chroma subsampling
    return picture if picture.size == even else picture.resize(even)


def _add_cover(book: av.container.OutputContainer, picture: Image.Image) -> None:
    stream = book.add_stream("mjpeg", rate=1)
    stream.width, stream.height, stream.pix_fmt = picture.width, picture.height, "yuvj420p"
    stream.disposition = Disposition.attached_pic
    frame = av.VideoFrame.from_ndarray(np.asarray(picture), "rgb24").reformat(format="yuvj420p")
    book.mux([*stream.encode(frame), *stream.encode(None)])
