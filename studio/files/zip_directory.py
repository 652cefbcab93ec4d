"""The directory of a ZIP file, which `zipfile` reads whole when it opens the file."""

from typing import BinaryIO

_END, _END_BYTES = b"PK\x05\x06", 22  # of the record that tells the directory's length
_LENGTH = slice(12, 16)  # in that record
_ZIP64_LOCATOR, _LOCATOR_BYTES = b"PK\x06\x07", 20
_ZIP64_END, _ZIP64_END_BYTES = b"PK\x06\x06", 56  # of that record in files beyond 4 GB, before the locator
_ZIP64_LENGTH = slice(40, 48)
_LONGEST_COMMENT = 1 << 16


def has_short_directory(file: BinaryIO, most: int, *, zip64: bool = False) -> bool:
    """Whether a ZIP file's directory has at most `most` bytes. True without an end, where `zipfile` finds no directory.

    A longer one can take this process seconds and hundreds of megabytes. zip64: whether the file may be a Zip64, which
    is only for files beyond 4 GB. The end is looked for as by `zipfile`: at the end of the file, else before its
    comment.
    """
    file.seek(max(0, file.seek(0, 2) - _LONGEST_COMMENT - _END_BYTES - _LOCATOR_BYTES - _ZIP64_END_BYTES))
    tail = file.read()
    last = len(tail) - _END_BYTES
    start = last if tail.startswith(_END, max(0, last)) else tail.rfind(_END)
    if start < 0:
        return True
    if tail[max(0, start - _LOCATOR_BYTES) : start].startswith(_ZIP64_LOCATOR):
        end = tail[max(0, start - _LOCATOR_BYTES - _ZIP64_END_BYTES) :]
        return zip64 and end.startswith(_ZIP64_END) and int.from_bytes(end[_ZIP64_LENGTH], "little") <= most
    return int.from_bytes(tail[start:][_LENGTH], "little") <= most
