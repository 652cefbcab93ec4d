"""Archives of voices: .zip files of voice files. Entries are never extracted to disk."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from engine.errors import InvalidInput, RepriseError
from engine.files.bounded import open_regular
from engine.voice import MAX_FILE_BYTES, VOICE_FILE_SUFFIX
from storage.errors import VoiceNotFound
from studio.files.file_names import safe_file_name, short_stem
from studio.files.zip_directory import has_short_directory

if TYPE_CHECKING:
    from storage import VoiceLibrary, VoiceRecord

LEFT_OUT = "Left out.txt"
MAX_FILES = 500  # entries of an archive that is read; saving that many takes a few seconds
MAX_BYTES = 256 << 20  # unpacked; voices hardly compress
MAX_VOICE_BYTES = min(MAX_FILE_BYTES, 64 << 20)  # bytes of one voice: more than can be uploaded unpacked
MAX_SHOWN_NAME = 200  # characters of an entry's name that are shown
MAX_DIRECTORY_BYTES = 1 << 20  # bytes of the central directory
MAX_OWN_BYTES = 1 << 40  # of an archive on the user's own machine
MAX_OWN_DIRECTORY_BYTES = 32 << 20  # of its central directory: some 200,000 voices
_LOCAL_HEADER_BYTES = 30
_BLOCK = 1 << 16  # bytes unpacked at a time
_FIRST_TIME, _LAST_TIME = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)  # of an entry; a clock may be wrong
# The exceptions that `zipfile` raises for damaged archives.
_DAMAGES = (
    BadZipFile,
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zlib.error,
)


class InvalidVoiceArchive(InvalidInput):
    """An archive that cannot be read, or exceeds a limit."""


def is_voice_archive(path: Path) -> bool:
    """Whether a file of the user's own is an archive, instead of a single voice file. Raises UnreadableFile."""
    with open_regular(path, MAX_OWN_BYTES) as file:
        return _is_zip(file)


def _is_zip(file: BinaryIO) -> bool:
    """Whether a file begins as a .zip does; the file is at its start afterwards."""
    begins = file.read(4)
    file.seek(0)
    return begins in (b"PK\x03\x04", b"PK\x05\x06")


class VoiceArchive:
    """A .zip of voice files, or a single voice file."""

    def __init__(self, path: Path, name: str, *, own: bool = False) -> None:
        """name: of the file, as shown to the user. own: it is on the user's own machine, and may have any number of
        voices."""
        self._path, self._name, self._own = path, name, own

    def voice_files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the bytes of each voice file of an archive, or of the single file.

        The bytes of entries with another suffix are empty. Raises InvalidVoiceArchive; before the first entry if the
        central directory already shows that the archive is unsafe or too large.
        """
        with self._path.open("rb") as file:
            if not _is_zip(file):
                yield self._name, file.read(MAX_FILE_BYTES + 1)  # the extra byte makes parsing reject a longer file
                return
            try:
                most = MAX_OWN_DIRECTORY_BYTES if self._own else MAX_DIRECTORY_BYTES
                if not has_short_directory(file, most, zip64=self._own):
                    raise self._too_many()
                with ZipFile(file) as archive:
                    left = MAX_OWN_BYTES if self._own else MAX_BYTES
                    for entry in self._checked_entries(archive):
                        data = self._unpack(archive, entry, left) if _is_voice(entry) else b""
                        left -= len(data)
                        yield _display_name(entry.filename), data
            except InvalidInput:
                raise
            except _DAMAGES as error:
                raise InvalidVoiceArchive("archive.damaged", name=self._name) from error

    def _checked_entries(self, archive: ZipFile) -> list[ZipInfo]:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if any(_is_unsafe(entry) for entry in entries) or _overlap(entries):
            raise InvalidVoiceArchive("archive.odd", name=self._name)
        wanted = [entry for entry in entries if not _is_system_file(entry)]
        if len(wanted) > MAX_FILES and not self._own:
            raise self._too_many()
        voices = [entry.file_size for entry in wanted if _is_voice(entry)]
        if (sum(voices) > MAX_BYTES and not self._own) or max(voices, default=0) > MAX_VOICE_BYTES:
            raise self._too_large()
        return wanted

    def _unpack(self, archive: ZipFile, entry: ZipInfo, most: int) -> bytes:
        """Unpack an entry block by block, because declared sizes cannot be trusted.

        Raises InvalidVoiceArchive for more than `most` bytes, or more than one voice can have.
        """
        blocks = []
        room = min(most, MAX_VOICE_BYTES)
        with archive.open(entry) as file:
            while block := file.read(_BLOCK):
                blocks.append(block)
                room -= len(block)
                if room < 0:
                    raise self._too_large()
        data = b"".join(blocks)
        if len(data) != entry.file_size:
            raise BadZipFile
        return data

    def _too_many(self) -> InvalidVoiceArchive:
        return InvalidVoiceArchive("archive.many", name=self._name, most=MAX_FILES)

    def _too_large(self) -> InvalidVoiceArchive:
        return InvalidVoiceArchive("archive.large", name=self._name, most=MAX_BYTES >> 20)


def write_voice_archive(file: BinaryIO, library: VoiceLibrary, voices: Sequence[VoiceRecord]) -> None:
    """Write voices as an archive. Voices that cannot be read are named in `LEFT_OUT`."""
    names: set[str] = set()
    left_out = []
    with ZipFile(file, "w", ZIP_STORED) as archive:
        for voice in voices:
            try:
                data = library.export_voice(voice.id, owner=voice.owner)
            except VoiceNotFound:  # deleted meanwhile
                continue
            except RepriseError as error:
                left_out.append(f"{voice.name}: {error}")
                continue
            changed = min(max(_FIRST_TIME, voice.updated.timetuple()[:6]), _LAST_TIME)
            archive.writestr(ZipInfo(_unique_name(voice.name, names), changed), data)
        if left_out:
            archive.writestr(LEFT_OUT, "\n".join(left_out))


def _unique_name(name: str, names: set[str]) -> str:
    """Return a file name that is not in `names`, ignoring case, and add it to them."""
    stem = short_stem(safe_file_name(name))
    number, new = 1, stem
    while new.casefold() in names:
        number += 1
        new = f"{stem} {number}"
    names.add(new.casefold())
    return new + VOICE_FILE_SUFFIX


def _is_unsafe(entry: ZipInfo) -> bool:
    """Return whether an entry has a path that leaves the folder, a password, or a rare compression method."""
    path = entry.orig_filename
    climbs = path.startswith("/") or ".." in path.split("/") or any(letter in path for letter in "\\:\0")
    return climbs or bool(entry.flag_bits & 1) or entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED)


def _overlap(entries: list[ZipInfo]) -> bool:
    """Return whether two entries share bytes of the archive, as in zip bombs that list the same data many times."""
    places = sorted((entry.header_offset, entry.compress_size) for entry in entries)
    return any(start + _LOCAL_HEADER_BYTES + size > following for (start, size), (following, _) in pairwise(places))


def _is_system_file(entry: ZipInfo) -> bool:
    return entry.filename.startswith("__MACOSX/") or _display_name(entry.filename).startswith(".")


def _is_voice(entry: ZipInfo) -> bool:
    return entry.filename.lower().endswith(VOICE_FILE_SUFFIX)


def _display_name(path: str) -> str:
    name = path.rpartition("/")[2]
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return shown if len(shown) <= MAX_SHOWN_NAME else f"{shown[:MAX_SHOWN_NAME]}…"
