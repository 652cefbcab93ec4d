"""Damaged voice files and archives: mutated, forged with a valid checksum, and bombs.

Every case is the bytes of an upload. Importing it must return usable voices or an error for each file.
"""

import hashlib
import io
import itertools
import json
import random
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from engine.audio import decode_audio, encode_audio
from engine.checks import MAX_CODEBOOKS
from engine.codes import MAX_FRAMES, checked_codes
from engine.errors import InvalidInput
from engine.voice import Reference, Voice
from studio.voices.voice_archive import VoiceArchive
from tests.attack.inputs.mutations import damaged
from web.downloads.sounds import converted
from web.ui.i18n import Texts, Translations

_RATE = 22_050
_HEAD = struct.Struct("<8sHI")
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e308, 1 << 31, 1 << 63, 10**400, "", "x", "\0", "\ud800", "x" * 20_000, [], {}, [[]],
    [None], {"a": 1}, ["x"] * 1_000, "2026-11-21T08:30:00", "9999-12-31T23:59:59-12:00",
)  # fmt: skip


def cases(seed: int, count: int) -> Iterator[bytes]:
    """`count` uploads: first the crafted ones, then forged and damaged ones in turn."""
    yield from (make() for make in itertools.islice(crafted().values(), count))
    yield from damaged_uploads(seed, count - len(crafted()))


def damaged_uploads(seed: int, count: int) -> Iterator[bytes]:
    """`count` forged and damaged voice files and archives."""
    ways = (_damaged_voice, _forged_voice, _damaged_archive, _archive_of_forged)
    for index in range(count):
        yield ways[index % len(ways)](random.Random(f"{seed}:{index}"))


def run(case: bytes) -> None:
    """Import an upload and use its voices. Raises undeclared errors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "upload"
        path.write_bytes(case)
        with suppress(InvalidInput):
            for name, data in VoiceArchive(path, "mine.zip").voice_files():
                assert name.isprintable(), "the file name is not printable"
                with suppress(InvalidInput):
                    _use(Voice.from_bytes(data))


def _use(voice: Voice) -> None:
    assert Voice.from_bytes(voice.to_bytes()) == voice, "the voice changed in export and import"
    for reference in voice.references:
        if reference.clip:
            with suppress(InvalidInput):
                decode_audio(reference.clip, _RATE)
            with suppress(InvalidInput):
                converted(reference.clip, "wav")


@cache
def _texts() -> Texts:
    return Translations.load().texts(None)


@cache
def crafted() -> dict[str, Callable[[], bytes]]:
    """Functions that create crafted uploads, by purpose."""
    return {
        "nothing": lambda: b"",
        "a size that is a lie": lambda: with_false_size(archive(("a.voice", bytes(100 << 20))), 100),
        "a size beyond all": lambda: with_false_size(archive(("a.voice", b"x")), 0xFFFFFFFE),
        "100 MB of zeros": lambda: archive(("a.voice", bytes(100 << 20))),
        "many times 40 MB": lambda: archive(*((f"{number}.voice", bytes(40 << 20)) for number in range(6))),
        "one entry, listed 900 times": lambda: with_repeated_entry(archive(("a.voice", bytes(1 << 20))), 900),
        "20,000 names": lambda: archive(*((f"{number}", b"") for number in range(20_000)), compression=ZIP_STORED),
        "an archive in itself": lambda: archive(("a.voice", archive(("a.voice", bytes(100 << 20))))),
        "a name of 60,000 letters": lambda: archive(("\x1b[2J" + "ä" * 30_000 + ".voice", b"x")),
        "packed by bzip2": lambda: archive(("a.voice", bytes(100 << 20)), compression=ZIP_BZIP2),
        "packed by lzma": lambda: archive(("a.voice", b"x"), compression=ZIP_LZMA),
        "a wrong checksum": lambda: _replaced(archive(("a.voice", b"x")), struct.pack("<L", zlib.crc32(b"x")), b"abcd"),
        "paths out of the folder": lambda: archive(("../../a.voice", valid_voice_file())),
        "as many codes as there can be": _all_codes,
        "archives of all codes": lambda: archive(
            *((f"{number}.voice", _all_codes(f"Anna {number}")) for number in range(4))
        ),
        "a header of brackets": lambda: with_checksum(b"[" * (2 << 20), b""),
        "a header of lists": lambda: with_checksum(b"[" + b"[]," * 690_000 + b"1]", b""),
        "codes of no bits": lambda: _with_codes(bytes([0]) * 4, MAX_FRAMES, b""),
        "clips of hours": _hours,
    }


def archive(*entries: tuple[str | ZipInfo, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    """Return an archive with these entries."""
    made = io.BytesIO()
    with ZipFile(made, "w", compression) as file:
        for name, data in entries:
            # A fixed time stamp, for deterministic bytes.
            entry = name if isinstance(name, ZipInfo) else ZipInfo(name)
            file.writestr(entry, data, compression, compresslevel=1)  # fast
    return made.getvalue()


def with_false_size(data: bytes, size: int) -> bytes:
    """Set the unpacked size of the archive's only entry, in both headers, to `size` bytes."""
    changed = bytearray(data)
    for place, at in ((0, 22), (data.rindex(b"PK\1\2"), 24)):
        struct.pack_into("<L", changed, place + at, size)
    return bytes(changed)


def with_repeated_entry(data: bytes, times: int) -> bytes:
    """Repeat the only entry of the archive's central directory."""
    start = data.rindex(b"PK\1\2")
    end = data.rindex(b"PK\5\6")
    entry = data[start:end] * times
    return data[:start] + entry + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, times, times, len(entry), start, 0)


def _replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    return data.replace(old, new)


@cache
def valid_voice_file() -> bytes:
    """A valid voice file."""
    time = np.arange(_RATE) / _RATE
    clip = encode_audio((0.3 * np.sin(2 * np.pi * 200 * time)).astype(np.float32), _RATE, "flac")
    codes = checked_codes(np.arange(9 * 22).reshape(9, 22) % 512)
    references = tuple(Reference(f"Words {number}.", codes, clip, _RATE, 1.0) for number in range(2))
    return Voice("Anna", references, "fingerprint", tags=("calm",)).to_bytes()


def with_checksum(header: bytes, blobs: bytes) -> bytes:
    """Return a voice file with any content and a valid checksum."""
    body = _HEAD.pack(b"\x89RPV\r\n\x1a\n", 1, len(header)) + header + blobs
    return body + hashlib.sha256(body).digest()


def _header_and_blobs() -> tuple[dict[str, Any], bytes]:
    data = valid_voice_file()
    end = _HEAD.size + _HEAD.unpack_from(data)[2]
    return json.loads(data[_HEAD.size : end]), data[end:-32]


def _forged_voice(chance: random.Random) -> bytes:
    """Change values of the header, or the codes and clips, and write a valid checksum."""
    header, blobs = _header_and_blobs()
    inside = chance.choice([header, *header["references"]])
    for _ in range(chance.randint(0, 2)):
        inside[chance.choice([*inside, "extra"])] = deepcopy(chance.choice(_VALUES))
    if chance.random() < 0.6:
        blobs = damaged(blobs, chance)
        if chance.random() < 0.5:
            blobs = blobs[:198] + struct.pack("<I", zlib.crc32(blobs[:198])) + blobs[202:]
    text = json.dumps(header).encode()
    return with_checksum(damaged(text, chance) if chance.random() < 0.2 else text, blobs)


def _damaged_voice(chance: random.Random) -> bytes:
    return damaged(valid_voice_file(), chance)


def _damaged_archive(chance: random.Random) -> bytes:
    ways = ZIP_STORED, ZIP_DEFLATED
    return damaged(
        archive(("Anna.voice", valid_voice_file()), ("b/Zoë.voice", b"x"), compression=chance.choice(ways)), chance
    )


def _archive_of_forged(chance: random.Random) -> bytes:
    return archive(*((f"{number}.voice", _forged_voice(chance)) for number in range(3)))


def _with_codes(widths: bytes, frames: int, packed: bytes, name: str = "Anna") -> bytes:
    body = struct.pack("<4sBBI", b"RPCD", 1, len(widths), frames) + widths + packed
    codes = body + struct.pack("<I", zlib.crc32(body))
    header, _ = _header_and_blobs()
    entry = {**header["references"][0], "codes": len(codes), "clip": 0, "duration": 100.0}
    return with_checksum(json.dumps({**header, "name": name, "references": [entry] * 16}).encode(), codes * 16)


def _all_codes(name: str = "Anna") -> bytes:
    return _with_codes(bytes([16]) * MAX_CODEBOOKS, MAX_FRAMES, bytes(2 * MAX_CODEBOOKS * MAX_FRAMES), name)


def _hours() -> bytes:
    """A clip of twenty minutes whose header declares one second."""
    clip = bytearray(encode_audio(np.zeros(_RATE * 1_200, np.float32), _RATE, "flac"))
    samples = int.from_bytes(clip[18:26], "big") >> 36 << 36 | _RATE
    clip[18:26] = samples.to_bytes(8, "big")
    header, blobs = _header_and_blobs()
    first = header["references"][0]
    codes = blobs[: first["codes"]]
    entry = {**first, "clip": len(clip)}
    return with_checksum(json.dumps({**header, "references": [entry]}).encode(), codes + bytes(clip))
