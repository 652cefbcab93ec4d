"""Codes survive packing, and invalid ones are rejected."""

import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.codes import MAX_FRAMES, codes_from_bytes, codes_to_bytes
from engine.errors import InvalidCodes
from engine.voice import Reference

# A slow machine must not fail these tests.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CODES: np.ndarray = np.random.default_rng(0).integers(0, 1024, (10, 12))
REFERENCE = Reference("Es war einmal …", CODES, b"", 22050, 0.1)


def sealed_codes(widths: bytes, frames: int, packed: bytes, version: int = 1) -> bytes:
    body = b"RPCD" + struct.pack("<BBI", version, len(widths), frames) + widths + packed
    return body + struct.pack("<I", zlib.crc32(body))


@calm
@given(
    st.integers(1, 0xFFFF).flatmap(
        lambda most: arrays.arrays(
            st.sampled_from([np.uint16, np.int64, np.int32]).map(np.dtype),
            arrays.array_shapes(min_dims=2, max_dims=2, max_side=40),
            elements=st.integers(0, min(most, 0xFFFF)),
        )
    )
)
def test_codes_survive_packing(codes: np.ndarray) -> None:
    back = codes_from_bytes(codes_to_bytes(codes))
    assert back.dtype == np.uint16
    assert back.tolist() == codes.tolist()
    assert not back.flags.writeable


def test_thirty_seconds_of_codes_take_about_eight_kilobytes() -> None:
    codes = np.random.default_rng(0).integers(0, 1024, (10, 646))
    codes[0] = np.random.default_rng(1).integers(0, 4096, 646)
    codes[:, 0] = [4095] + [1023] * 9
    assert len(codes_to_bytes(codes)) == 24 + 646 * (12 + 9 * 10) // 8 + 1


def test_packed_codes_follow_the_format() -> None:
    # 3 bits: 001 100; 1 bit: 0 1
    written = codes_to_bytes([[1, 4], [0, 1]])
    assert written == sealed_codes(bytes([3, 1]), 2, bytes([0b00110001]))
    assert codes_to_bytes([[0xFFFF]]) == sealed_codes(bytes([16]), 1, b"\xff\xff")


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros((0, 5), int),
        np.zeros((5, 0), int),
        np.zeros((65, 1), int),
        np.zeros((1, MAX_FRAMES + 1), int),
        np.zeros(5, int),
        np.zeros((1, 2, 3), int),
        [[-1]],
        [[65536]],
        [[1.0]],
        [[True]],
        [["a"]],
    ],
)
def test_invalid_codes_are_rejected(codes: Any) -> None:
    with pytest.raises(InvalidCodes):
        codes_to_bytes(codes)
    with pytest.raises(InvalidCodes):
        replace(REFERENCE, codes=codes)


@calm
@given(st.data())
def test_flipped_bits_in_packed_codes_are_detected(data: st.DataObject) -> None:
    damaged = bytearray(codes_to_bytes(CODES))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InvalidCodes):
        codes_from_bytes(bytes(damaged))


@calm
@given(st.integers(0, len(codes_to_bytes(CODES)) - 1))
def test_truncated_packed_codes_are_detected(length: int) -> None:
    with pytest.raises(InvalidCodes):
        codes_from_bytes(codes_to_bytes(CODES)[:length])


@calm
@given(st.binary(max_size=80), st.integers(0, 2**32 - 1), st.binary(max_size=80), st.integers(0, 255))
def test_forged_packed_codes_decode_or_raise(widths: bytes, frames: int, packed: bytes, version: int) -> None:
    try:
        codes = codes_from_bytes(sealed_codes(widths, frames, packed, version))
    except InvalidCodes:
        return
    assert codes.shape == (len(widths), frames)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "not codes"),
        (b"RIFF" + bytes(100), "not codes"),
        (sealed_codes(b"\x01", 8, b"x", version=2), "version 2"),
        (sealed_codes(b"\0", 2**32 - 1, b""), "damaged"),  # a few bytes that claim to be gigabytes
        (sealed_codes(b"\x11", 8, bytes(17)), "damaged"),
        (sealed_codes(b"\x01", 9, b"x"), "damaged"),
        (sealed_codes(b"\x01" * 65, 8, bytes(65)), "65 codebooks"),
    ],
)
def test_invalid_packed_codes_are_rejected_with_reason(data: bytes, sentence: str) -> None:
    with pytest.raises(InvalidCodes, match=sentence):
        codes_from_bytes(data)
