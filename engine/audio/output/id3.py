"""ID3v2.4 tags at the beginning of MP3 files. libsndfile would write texts that are not ASCII in a wrong encoding."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import BinaryIO

_FRAMES = {"title": b"TIT2", "artist": b"TPE1", "date": b"TDRC", "comment": b"COMM"}
_UTF_8 = b"\x03"
_NO_DESCRIPTION = b"XXX\0"  # the code for an unknown language in ID3v2.4, and an empty description


def id3_tag(tags: Mapping[str, str]) -> bytes:
    """Return the bytes of a tag. tags: by FFmpeg's names; others than those of `_FRAMES` are ignored."""
    frames = b"".join(_frame(id, tags[name]) for name, id in _FRAMES.items() if tags.get(name))
    return b"ID3\x04\0\0" + _size(frames) + frames if frames else b""


def _frame(id: bytes, text: str) -> bytes:
    content = _UTF_8 + (_NO_DESCRIPTION if id == b"COMM" else b"") + text.encode()
    return id + _size(content) + b"\0\0" + content


def _size(content: bytes) -> bytes:
    """Return the length in four bytes of seven bits."""
    return bytes(len(content) >> shift & 0x7F for shift in (21, 14, 7, 0))


class FileAfterTag:
    """A file for libsndfile that begins after the tag that was written into another."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._start = file, file.tell()

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell() - self._start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset + (self._start if whence == io.SEEK_SET else 0), whence) - self._start
