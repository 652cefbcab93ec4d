"""Codes [K, T] of a reference as values and as bytes, without torch: K codebooks, T frames.

The bytes (little endian) are modelled on descript-audio-codec's `DACFile`: codes with their version.

    4 bytes  magic "RPCD"        1 byte  version (1)        1 byte  K, number of codebooks
    4 bytes  T, number of frames         K bytes  bits per code of each codebook, 1 to 16
    the codes, one codebook after the other, packed at that many bits each, padded with zeros to a whole byte
    4 bytes  CRC-32 of all of the above
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.checks import MAX_CODEBOOKS
from engine.errors import InvalidCodes

Codes = NDArray[np.uint16]

MAX_FRAMES = 1 << 14

_MAGIC = b"RPCD"
_VERSION = 1
_HEAD = struct.Struct("<4sBBI")
_CRC = struct.Struct("<I")
MAX_CODES_BYTES = _HEAD.size + MAX_CODEBOOKS * (1 + 2 * MAX_FRAMES) + _CRC.size


def checked_codes(codes: ArrayLike) -> Codes:
    """Copy codes [K, T] of any integer dtype to a read-only uint16 array [K, T].

    Raises InvalidCodes unless 1 ≤ K ≤ 64, 1 ≤ T ≤ 16,384 and every code is in 0..65,535.
    """
    array = np.asarray(codes)
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
        raise InvalidCodes("codes.not_integers", type=str(array.dtype), shape=str(list(array.shape)))
    if not (1 <= array.shape[0] <= MAX_CODEBOOKS and 1 <= array.shape[1] <= MAX_FRAMES):
        raise InvalidCodes("codes.shape", codebooks=array.shape[0], frames=array.shape[1])
    if int(array.min()) < 0 or int(array.max()) > 0xFFFF:
        raise InvalidCodes("codes.range", most=0xFFFF)
    own = np.array(array, dtype=np.uint16, order="C")
    own.flags.writeable = False
    return own


def codes_to_bytes(codes: ArrayLike) -> bytes:
    """Pack codes [K, T] compactly, with version and checksum: 30 s of S2 speech (10 x 646) in about 8 kB.

    Raises InvalidCodes as `checked_codes` does.
    """
    array = checked_codes(codes)
    count, frames = array.shape
    widths = [max(1, int(row.max()).bit_length()) for row in array]
    bits = np.unpackbits(array.astype(">u2").view(np.uint8).reshape(count, frames, 2), axis=2)
    planes = [row[:, 16 - width :].ravel() for row, width in zip(bits, widths, strict=True)]
    packed = np.packbits(np.concatenate(planes)).tobytes()
    body = _HEAD.pack(_MAGIC, _VERSION, count, frames) + bytes(widths) + packed
    return body + _CRC.pack(zlib.crc32(body))


def codes_from_bytes(data: bytes) -> Codes:
    """Read the bytes of `codes_to_bytes`: uint16 [K, T], read-only.

    Raises InvalidCodes when the bytes are damaged, cut short, of an unknown version, or not codes at all.
    """
    count, frames = _head(data)
    widths = data[_HEAD.size : _HEAD.size + count]
    packed = data[_HEAD.size + count : -_CRC.size]
    # With a width of 0, a few bytes could claim any number of frames.
    if len(widths) != count or not all(1 <= width <= 16 for width in widths):
        raise InvalidCodes("codes.damaged")
    if len(packed) != (sum(widths) * frames + 7) // 8:
        raise InvalidCodes("codes.damaged")
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8))
    codes = np.empty((count, frames), dtype=np.uint16)
    start = 0
    for row, width in zip(codes, widths, strict=True):
        whole = np.zeros((frames, 16), dtype=np.uint8)  # every code in 16 bits
        whole[:, 16 - width :] = bits[start : start + frames * width].reshape(frames, width)
        row[:] = np.packbits(whole).view(">u2")
        start += frames * width
    return checked_codes(codes)


def _head(data: bytes) -> tuple[int, int]:
    """Check magic, version and checksum of codes; return K and T."""
    if len(data) < _HEAD.size + _CRC.size or not data.startswith(_MAGIC):
        raise InvalidCodes("codes.no_codes")
    _, version, count, frames = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise InvalidCodes("codes.version", version=str(version), readable=str(_VERSION))
    if len(data) > MAX_CODES_BYTES or zlib.crc32(data[: -_CRC.size]) != _CRC.unpack(data[-_CRC.size :])[0]:
        raise InvalidCodes("codes.damaged")
    return count, frames
