"""Cache of the keys and values of prompt prefixes: a voice used before needs no prefill.

Prefixes are looked up by content, the columns themselves, so a replaced voice never matches. Entries that the device
budget evicts move to host memory; entries that the host budget evicts are dropped. An entry that is used again moves
back, unless it alone is above the device budget. Besides voices, the cache holds the spoken turns of requests whose
slot was given to another request before their next turn.
"""

import hashlib
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from engine.byte_lru import ByteLRU
from engine.errors import first_line
from engine.models.prompt import Prompt
from engine.serving.device import new_stream, on_device

log = logging.getLogger(__name__)


class PrefixCache:
    """LRU of `[layers, 2, H_kv, length, d]` copies, bounded by bytes in each of two tiers.

    On a CPU both tiers are the same memory, so only the first is used. Entries move to the second one in a thread of
    their own, because frames must not wait for copies of up to 150 MB; meanwhile they are found on the device. No more
    bytes move at once than the first tier may have; further evicted entries are dropped. Methods are for one thread,
    `nbytes` for any.
    """

    def __init__(self, device: torch.device, device_bytes: int, host_bytes: int) -> None:
        self._device = device
        self._on_device: ByteLRU[bytes, Tensor] = ByteLRU(device_bytes)
        self._on_host: ByteLRU[bytes, Tensor] = ByteLRU(0 if device.type == "cpu" else host_bytes)
        self._moving: dict[bytes, Tensor] = {}  # evicted from the device, and not yet in host memory
        self._moves = threading.Lock()
        self._mover = ThreadPoolExecutor(1, "reprise-prefixes")
        # One for all moves: PyTorch has 32 streams, and would soon return one on which graphs are captured.
        self._stream = new_stream(device, urgent=False) if device.type == "cuda" and host_bytes else None

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes on the device and in host memory."""
        return self._on_device.nbytes, self._on_host.nbytes

    def get(self, columns: Tensor) -> Tensor | None:
        """Return the keys and values of the prefix `columns` `[rows, T]`, on the device; None when not cached."""
        key = _key(columns)
        if (prefix := self._on_device.get(key)) is not None:
            return prefix
        if (evicted := self._find_evicted(key)) is None:
            return None
        try:
            prefix = evicted.to(self._device, non_blocking=True)
        except Exception as error:  # such as out of memory: it is computed again
            log.warning("A prompt's keys and values could not be copied to the device: %s", first_line(error))
            return None
        if prefix.nbytes <= self._on_device.limit:
            self._take_evicted(key)
            self._put_on_device(key, prefix)
        return prefix

    def put(self, columns: Tensor, prefix: Tensor) -> None:
        """Cache the keys and values of the prefix `columns`."""
        self._put_on_device(_key(columns), prefix)

    def drop(self, columns: Tensor) -> None:
        """Drop the prefix `columns` `[rows, T]`, and the spoken turns stashed with it."""
        key = _key(columns)
        with self._moves:
            for moving in [other for other in self._moving if other.startswith(key)]:
                del self._moving[moving]
        for tier in (self._on_device, self._on_host):
            tier.drop_where(lambda other, _: other.startswith(key))

    def stash(self, prompt: Prompt, prefix: Tensor) -> bytes:
        """Cache the keys and values of a prompt up to the end of its last generated columns.

        They stay until `unstash`, or `drop_stash` of the returned key.
        """
        key = _generated_key(prompt)
        self._put_on_device(key, prefix)
        return key

    def drop_stash(self, key: bytes) -> None:
        """Drop the entry that `stash` has made, from either tier."""
        self._on_device.pop(key)
        self._take_evicted(key)

    def unstash(self, prompt: Prompt) -> Tensor | None:
        """Remove and return the entry for the prompt's generated columns, from either tier; None when not cached."""
        key = _generated_key(prompt)
        found = self._on_device.pop(key)
        return found if found is not None else self._take_evicted(key)

    def clear(self) -> None:
        with self._moves:
            self._moving.clear()
        self._on_device.clear()
        self._on_host.clear()

    def _put_on_device(self, key: bytes, prefix: Tensor) -> None:
        for old, evicted in self._on_device.put(key, prefix, prefix.nbytes):
            if self._on_host.limit:
                with self._moves:
                    moving = sum(each.nbytes for each in self._moving.values())
                    if moving and moving + evicted.nbytes > self._on_device.limit:
                        continue  # it is computed again
                    self._moving[old] = evicted
                computed = (
                    torch.cuda.current_stream(self._device).record_event() if self._device.type == "cuda" else None
                )
                self._mover.submit(self._move, old, evicted, computed)

    def _find_evicted(self, key: bytes) -> Tensor | None:
        """Return an entry that is moving to host memory or is there, and mark it as most recently used."""
        with self._moves:
            moving = self._moving.get(key)
        return moving if moving is not None else self._on_host.get(key)

    def _take_evicted(self, key: bytes) -> Tensor | None:
        """Remove and return an entry that is moving to host memory or is there."""
        with self._moves:
            moving = self._moving.pop(key, None)
        return moving if moving is not None else self._on_host.pop(key)

    def _move(self, key: bytes, prefix: Tensor, computed: torch.cuda.Event | None) -> None:
        """Copy an entry to host memory, unless it is removed meanwhile. computed: when the device has its values."""
        with self._moves:
            if self._moving.get(key) is not prefix:
                return
        kept = None
        try:
            kept = _host_copy(prefix, computed, self._stream)
        except Exception as error:  # such as out of memory: it is computed again
            log.warning("A prompt's keys and values could not be kept in host memory: %s", error)
        with self._moves:
            if self._moving.get(key) is prefix:
                del self._moving[key]
                if kept is not None:
                    self._on_host.put(key, kept, kept.nbytes)


@torch.inference_mode()
def _host_copy(prefix: Tensor, computed: torch.cuda.Event | None, stream: torch.cuda.Stream | None) -> Tensor:
    """Copy `[layers, …]` to the host, on a GPU on `stream` and a layer at a time, through a little pinned memory:
    pinning all of it, or copying without, would keep the driver from starting frames."""
    kept = torch.empty(prefix.shape, dtype=prefix.dtype)
    if stream is None or computed is None:
        return kept.copy_(prefix)
    with on_device(prefix.device), torch.cuda.stream(stream):
        stream.wait_event(computed)
        passing = torch.empty(prefix.shape[1:], dtype=prefix.dtype, pin_memory=True)
        for layer, place in zip(prefix, kept, strict=True):
            passing.copy_(layer, non_blocking=True)
            stream.synchronize()
            place.copy_(passing)
    return kept


def _generated_key(prompt: Prompt) -> bytes:
    """Return the key of a prompt's shared prefix, then one of the columns after it up to the last generated ones."""
    end = prompt.generated_ranges[-1][1]
    behind = _key(prompt.columns[:, prompt.shared : end])
    return _key(prompt.columns[:, : prompt.shared]) + behind + repr(prompt.generated_ranges).encode()


def _key(columns: Tensor) -> bytes:
    whole = columns.to("cpu", torch.int32).contiguous()
    return hashlib.sha256(repr(tuple(whole.shape)).encode() + whole.numpy().tobytes()).digest()
