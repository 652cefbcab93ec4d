"""Several voices as one file: a .zip of voice files. Nothing of it is ever unpacked into a folder.

voices   "all": every voice of one's own, as one archive
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from engine.errors import InvalidInput, RepriseError, VoiceNotFound
from engine.voice import MAX_FILE_BYTES, VOICE_FILE_SUFFIX
from web.downloads.links import OpenFile, Producer, file_name

if TYPE_CHECKING:
    from storage import VoiceLibrary, VoiceRecord
    from web.ui.i18n import Words

ARCHIVE = "Reprise voices.zip"
LEFT_OUT = "Left out.txt"
MOST_FILES = 500  # of an archive that is taken in; saving so many takes a few seconds
MOST_BYTES = 256 << 20  # of what is in it; voices hardly get smaller by packing
MOST_OF_ONE = min(MAX_FILE_BYTES, 64 << 20)  # bytes of a voice in it: more than can be uploaded unpacked
MOST_NAME = 200  # characters of a file's name in it that are ever shown
MOST_LISTED = 1 << 20  # bytes of an archive's list of files
_END = struct.Struct("<4s4xHHLLH")
_LOCATOR = b"PK\x06\x07"  # of the lists of archives too large for the usual one
_LOCATOR_BYTES = 20
_LOCAL_HEADER_BYTES = 30
_BLOCK = 1 << 16  # bytes that are unpacked at a time
# What `zipfile` raises for archives that are damaged, each at another place of the format.
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


def voice_archives(library: VoiceLibrary) -> Producer:
    """Produces all voices of an owner's own."""

    def produce(owner: str, asked: str) -> OpenFile:
        voices = [voice for voice in library.list(owner=owner) if not voice.shared]
        if asked != "all" or not voices:
            raise VoiceNotFound("There are no voices of yours to export yet.")
        file = tempfile.TemporaryFile()  # noqa: SIM115  # has no name, so nothing is left of it when it is sent
        try:
            _pack(file, library, voices)
        except BaseException:
            file.close()
            raise
        return OpenFile(file, ARCHIVE, "application/zip")

    return produce


def _pack(file: BinaryIO, library: VoiceLibrary, voices: list[VoiceRecord]) -> None:
    names: set[str] = set()
    left_out = []
    with ZipFile(file, "w", ZIP_STORED) as archive:
        for voice in voices:
            try:
                data = library.export_voice(voice.id, owner=voice.owner)
            except VoiceNotFound:  # deleted this moment
                continue
            except RepriseError as error:
                left_out.append(f"{voice.name}: {error}")
                continue
            archive.writestr(ZipInfo(_new_name(voice.name, names), voice.updated.timetuple()[:6]), data)
        if left_out:
            archive.writestr(LEFT_OUT, "\n".join(left_out))


def _new_name(name: str, names: set[str]) -> str:
    """A file's name that none of `names` is, also where systems take no notice of case; it becomes one of them."""
    stem = file_name(name)
    number, new = 1, stem
    while new.casefold() in names:
        number += 1
        new = f"{stem} {number}"
    names.add(new.casefold())
    return new + VOICE_FILE_SUFFIX


def voice_files_in(path: Path, name: str, words: Words) -> Iterator[tuple[str, bytes]]:
    """The voice files of what was uploaded, each with its name: those of an archive, or the one that the file is.

    Of what has another ending the bytes are empty. name: as the person knows the file. Raises InvalidInput, before it
    gives any, for archives that are too much or not harmless.
    """
    with path.open("rb") as file:
        if file.read(4) not in (b"PK\x03\x04", b"PK\x05\x06"):
            file.seek(0)
            yield name, file.read(MAX_FILE_BYTES + 1)  # of more than that a voice file says that it is too large
            return
        try:
            _check_list(file, name, words)
            with ZipFile(file) as archive:
                left = MOST_BYTES
                for entry in _checked_entries(archive, name, words):
                    data = _unpacked(archive, entry, left, name, words) if _is_voice(entry) else b""
                    left -= len(data)
                    yield _bare(entry.filename), data
        except InvalidInput:
            raise
        except _DAMAGES as error:
            raise InvalidInput(words("library.zip_damaged", name=name)) from error


def _unpacked(archive: ZipFile, entry: ZipInfo, most: int, name: str, words: Words) -> bytes:
    """An entry's bytes, unpacked block by block: sizes that an archive declares are not to be believed.

    Raises InvalidInput for more than `most` of them, or than one voice can have.
    """
    blocks = []
    room = min(most, MOST_OF_ONE)
    with archive.open(entry) as file:
        while block := file.read(_BLOCK):
            blocks.append(block)
            room -= len(block)
            if room < 0:
                raise InvalidInput(words("library.zip_large", name=name, most=MOST_BYTES >> 20))
    data = b"".join(blocks)
    if len(data) != entry.file_size:
        raise BadZipFile
    return data


def _check_list(file: BinaryIO, name: str, words: Words) -> None:
    """How long the archive's list of files is, looked up before any of it is read."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END.size - _LOCATOR_BYTES))
    tail = file.read()
    if len(tail) < _END.size:
        raise BadZipFile
    magic, *_, listed, _, comment = _END.unpack(tail[-_END.size :])
    if magic != b"PK\x05\x06" or comment:
        raise BadZipFile
    if listed > MOST_LISTED or tail.startswith(_LOCATOR):
        raise InvalidInput(words("library.zip_many", name=name, most=MOST_FILES))


def _checked_entries(archive: ZipFile, name: str, words: Words) -> list[ZipInfo]:
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if any(_is_odd(entry) for entry in entries) or _overlap(entries):
        raise InvalidInput(words("library.zip_odd", name=name))
    wanted = [entry for entry in entries if not _is_systems_own(entry)]
    if len(wanted) > MOST_FILES:
        raise InvalidInput(words("library.zip_many", name=name, most=MOST_FILES))
    voices = [entry.file_size for entry in wanted if _is_voice(entry)]
    if sum(voices) > MOST_BYTES or max(voices, default=0) > MOST_OF_ONE:
        raise InvalidInput(words("library.zip_large", name=name, most=MOST_BYTES >> 20))
    return wanted


def _is_odd(entry: ZipInfo) -> bool:
    """What nobody packs by chance: paths out of the folder, passwords, rare ways of packing."""
    path = entry.orig_filename
    climbs = path.startswith("/") or ".." in path.split("/") or any(letter in path for letter in "\\:\0")
    return climbs or bool(entry.flag_bits & 1) or entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED)


def _overlap(entries: list[ZipInfo]) -> bool:
    """Whether two entries are the same bytes of the archive, as in bombs that say one thing many times."""
    places = sorted((entry.header_offset, entry.compress_size) for entry in entries)
    return any(start + _LOCAL_HEADER_BYTES + size > following for (start, size), (following, _) in pairwise(places))


def _is_systems_own(entry: ZipInfo) -> bool:
    return entry.filename.startswith("__MACOSX/") or _bare(entry.filename).startswith(".")


def _is_voice(entry: ZipInfo) -> bool:
    return entry.filename.lower().endswith(VOICE_FILE_SUFFIX)


def _bare(path: str) -> str:
    name = path.rpartition("/")[2]
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return shown if len(shown) <= MOST_NAME else f"{shown[:MOST_NAME]}…"
