"""Format-independent file mutations, deterministic for a given random generator."""

import random
import struct

_NUMBERS = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, 1 << 63)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """`data` with one to four mutations, half of them near its start, where headers are."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_MUTATIONS)(data, chance) or data
    return data


def _place(data: bytes, chance: random.Random) -> int:
    return chance.randrange(max(1, min(len(data), 512) if chance.random() < 0.5 else len(data)))


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 2, 8, 64))):
        if changed:
            changed[_place(data, chance)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _number(data: bytes, chance: random.Random) -> bytes:
    """Overwrite bytes with an unexpected number."""
    form = chance.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(form)
    value = chance.choice((*_NUMBERS, chance.getrandbits(64))) & ((1 << 8 * size) - 1)
    at = _place(data, chance)
    return data[:at] + struct.pack(form, value) + data[at + size :]


def _noise(data: bytes, chance: random.Random) -> bytes:
    at, length = _place(data, chance), chance.choice((1, 4, 16, 256, 4096))
    return data[:at] + chance.randbytes(length) + data[at + length :]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + chance.randbytes(chance.choice((1, 3, 64, 1024))) + data[at:]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def _remove(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at + chance.choice((1, 2, 100, 5000)) :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    piece = data[at : at + chance.choice((4, 32, 1000))]
    return data[:at] + piece * chance.choice((2, 3, 50)) + data[at:]


def _move(data: bytes, chance: random.Random) -> bytes:
    at, other = _place(data, chance), _place(data, chance)
    length = chance.choice((4, 32, 1000))
    return data[:at] + data[other : other + length] + data[at + length :]


_MUTATIONS = (_flip, _flip, _number, _number, _number, _noise, _insert, _cut, _remove, _repeat, _move)
