"""Voice archives: damaged ones, ones with false headers, and decompression bombs."""

import io
import random
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

from engine.errors import RepriseError
from engine.voice import Voice
from studio.voices.voice_archive import MAX_BYTES, MAX_FILES, VoiceArchive
from tests.attack.attack import Attack, Broken, randoms
from tests.attack.inputs.mutations import damaged
from tests.storage.making import voice

NAMES = (
    "a.voice",
    "../../etc/passwd.voice",
    "/abs.voice",
    "c:\\x.voice",
    "a\0b.voice",
    "x" * 4_000 + ".voice",
    ".voice",
)
BOMB = 1 << 30  # bytes that one entry unpacks to


def _archives(seed: int, count: int) -> Iterator[bytes]:
    whole = packed([("Ada.voice", voice().to_bytes()), ("sub/Ben.voice", voice("Ben").to_bytes())])
    for chance in randoms(seed, count):
        match chance.randrange(8):
            case 0:
                yield _bomb()
            case 1:
                yield _false_directory(whole, chance)
            case 2:
                count = chance.choice((1, 5, 1_200))
                yield packed([(f"{number}{chance.choice(NAMES)}", chance.randbytes(50)) for number in range(count)])
            case 3:
                yield packed([("a.voice", b"x" * 10_000)], chance.choice((ZIP_BZIP2, ZIP_LZMA, ZIP_DEFLATED)))
            case _:
                yield damaged(whole, chance)


def _read(data: bytes) -> None:
    """Read all voice files as an import does; none exceeds the limit of a voice file."""
    path = Path("archive.zip")
    path.write_bytes(data)
    read = entries = 0
    for _, content in VoiceArchive(path, "archive.zip").voice_files():
        read, entries = read + len(content), entries + 1
        if read > MAX_BYTES or entries > MAX_FILES:
            raise Broken(f"An archive gave {entries} files of {read:,} bytes.")
        try:
            Voice.from_bytes(content)
        except RepriseError:
            continue


def packed(files: list[tuple[str, bytes]], how: int = ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", how) as archive:
        for name, content in files:
            archive.writestr(ZipInfo(name), content, how)
    return file.getvalue()


@cache
def _bomb() -> bytes:
    """An entry that declares a small size and unpacks to a gigabyte of zeros."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)  # a block that can be repeated
    packed = block * (BOMB >> 20) + deflate.flush()
    name, said = b"a.voice", 1_000
    head = struct.pack("<4sHHHHHLLLHH", b"PK\3\4", 20, 0, 8, 0, 33, 0, len(packed), said, len(name), 0) + name
    listed = struct.pack(
        "<4sHHHHHHLLLHHHHHLL", b"PK\1\2", 20, 20, 0, 8, 0, 33, 0, len(packed), said, len(name), 0, 0, 0, 0, 0, 0
    )
    end = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, 1, 1, len(listed + name), len(head + packed), 0)
    return head + packed + listed + name + end


def _false_directory(whole: bytes, chance: random.Random) -> bytes:
    """Damage the central directory: sizes, offsets, compression method."""
    start = whole.rindex(b"PK\1\2") if chance.random() < 0.5 else whole.index(b"PK\1\2")
    return whole[:start] + damaged(whole[start:], chance)


ARCHIVES = Attack("archives", "zips of voices: damaged, lying, unpacking to a gigabyte", _archives, _read, 1_300)
