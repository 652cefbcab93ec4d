"""Keys and values of prompt beginnings that come again: a known voice costs no prefill.

Found by content, the columns themselves, so a voice that was replaced is never mistaken for what it was. What the
device has no room for moves to host memory, and from there it is forgotten.
"""

import hashlib

import torch
from torch import Tensor

from engine.serving.byte_lru import ByteLRU


class PrefixCache:
    """LRU of `[layers, 2, H_kv, length, d]` copies, bounded by bytes in each of two tiers.

    On a CPU both tiers are the same memory, so only the first is used.
    """

    def __init__(self, device: torch.device, device_bytes: int, host_bytes: int) -> None:
        self._device = device
        self._near: ByteLRU[bytes, Tensor] = ByteLRU(device_bytes)
        self._far: ByteLRU[bytes, Tensor] = ByteLRU(0 if device.type == "cpu" else host_bytes)

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes kept on the device and in host memory."""
        return self._near.nbytes, self._far.nbytes

    def find(self, columns: Tensor) -> Tensor | None:
        """What is kept of a prompt that begins with `columns` `[K + 1, T]`; on the device."""
        key = _key(columns)
        if (near := self._near.get(key)) is not None:
            return near
        if (far := self._far.pop(key)) is None:
            return None
        kept = far.to(self._device, non_blocking=True)
        self._put_near(key, kept)
        return kept

    def keep(self, columns: Tensor, kept: Tensor) -> None:
        """Remember what a prompt's beginning left in a slot."""
        self._put_near(_key(columns), kept)

    def drop(self, columns: Tensor) -> None:
        """Forget what is kept of a prompt that begins with `columns` `[K + 1, T]`."""
        key = _key(columns)
        self._near.pop(key)
        self._far.pop(key)

    def clear(self) -> None:
        self._near.clear()
        self._far.clear()

    def _put_near(self, key: bytes, kept: Tensor) -> None:
        for old, evicted in self._near.put(key, kept, kept.nbytes):
            if self._far.limit:
                self._far.put(old, evicted.to("cpu"), evicted.nbytes)


def _key(columns: Tensor) -> bytes:
    whole = columns.to("cpu", torch.int32).contiguous()
    return hashlib.sha256(repr(tuple(whole.shape)).encode() + whole.numpy().tobytes()).digest()
