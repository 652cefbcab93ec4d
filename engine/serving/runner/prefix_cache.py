"""Cache of the keys and values of prompt prefixes: a voice used before needs no prefill.

Prefixes are looked up by content, the columns themselves, so a replaced voice never matches. Entries that the device
budget evicts move to host memory; entries that the host budget evicts are dropped. Besides voices, the cache holds the
spoken turns of requests whose slot was given to another request before their next turn.
"""

import hashlib

import torch
from torch import Tensor

from engine.byte_lru import ByteLRU
from engine.models.prompt import Prompt


class PrefixCache:
    """LRU of `[layers, 2, H_kv, length, d]` copies, bounded by bytes in each of two tiers.

    On a CPU both tiers are the same memory, so only the first is used.
    """

    def __init__(self, device: torch.device, device_bytes: int, host_bytes: int) -> None:
        self._device = device
        self._on_device: ByteLRU[bytes, Tensor] = ByteLRU(device_bytes)
        self._on_host: ByteLRU[bytes, Tensor] = ByteLRU(0 if device.type == "cpu" else host_bytes)

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes on the device and in host memory."""
        return self._on_device.nbytes, self._on_host.nbytes

    def get(self, columns: Tensor) -> Tensor | None:
        """Return the keys and values of the prefix `columns` `[rows, T]`, on the device; None when not cached."""
        key = _key(columns)
        if (prefix := self._on_device.get(key)) is not None:
            return prefix
        if (prefix := self._on_host.pop(key)) is None:
            return None
        prefix = prefix.to(self._device, non_blocking=True)
        self._put_on_device(key, prefix)
        return prefix

    def put(self, columns: Tensor, prefix: Tensor) -> None:
        """Cache the keys and values of the prefix `columns`."""
        self._put_on_device(_key(columns), prefix)

    def drop(self, columns: Tensor) -> None:
        """Drop the prefix `columns` `[rows, T]`, and the spoken turns stashed with it."""
        key = _key(columns)
        for tier in (self._on_device, self._on_host):
            tier.drop_keys(lambda other: other.startswith(key))

    def stash(self, prompt: Prompt, prefix: Tensor) -> bytes:
        """Cache the keys and values of a prompt up to the end of its last spoken columns.

        They stay until `unstash`, or `drop_stash` of the returned key.
        """
        key = _spoken_key(prompt)
        self._put_on_device(key, prefix)
        return key

    def drop_stash(self, key: bytes) -> None:
        """Drop the entry that `stash` has made, from either tier."""
        self._on_device.pop(key)
        self._on_host.pop(key)

    def unstash(self, prompt: Prompt) -> Tensor | None:
        """Remove and return the entry for the prompt's spoken columns, from either tier; None when not cached."""
        key = _spoken_key(prompt)
        found = self._on_device.pop(key)
        return found if found is not None else self._on_host.pop(key)

    def clear(self) -> None:
        self._on_device.clear()
        self._on_host.clear()

    def _put_on_device(self, key: bytes, prefix: Tensor) -> None:
        for old, evicted in self._on_device.put(key, prefix, prefix.nbytes):
            if self._on_host.limit:
                self._on_host.put(old, evicted.to("cpu"), evicted.nbytes)


def _spoken_key(prompt: Prompt) -> bytes:
    """Return the key of a prompt's shared prefix, then one of the columns after it up to the last spoken ones."""
    end = prompt.spoken[-1][1]
    behind = _key(prompt.columns[:, prompt.shared : end])
    return _key(prompt.columns[:, : prompt.shared]) + behind + repr(prompt.spoken).encode()


def _key(columns: Tensor) -> bytes:
    whole = columns.to("cpu", torch.int32).contiguous()
    return hashlib.sha256(repr(tuple(whole.shape)).encode() + whole.numpy().tobytes()).digest()
