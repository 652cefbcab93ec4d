"""A least-recently-used cache bounded by bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteLRU(Generic[K, V]):
    """A mapping of at most `limit` bytes. Thread-safe.

    The caller gives the size of each value, which must not grow while it is cached.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()  # least recently used first
        self._nbytes = 0
        self._drops = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of all cached values."""
        return self._nbytes

    @property
    def drops(self) -> int:
        """How often values have been removed by `pop`, `drop_where` or `clear`."""
        return self._drops

    def get(self, key: K) -> V | None:
        """Return the value of `key` and mark it as most recently used; None when not cached."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: K, value: V, nbytes: int, *, drops: int | None = None) -> list[tuple[K, V]]:
        """Cache `value`, of `nbytes` bytes, replacing the previous value of `key`.

        drops: `self.drops` before the value was computed. If it has changed since then, the value may be one of those
        removed, and is not cached but returned.

        Returns: the evicted entries, least recently used first. A value above the limit is not cached but returned
        among them. The replaced value is not returned.
        """
        with self._lock:
            if drops not in (None, self._drops):
                return [(key, value)]
            self._drop(key)
            if nbytes > self.limit:
                return [(key, value)]
            evicted = []
            while self._nbytes + nbytes > self.limit:
                oldest = next(iter(self._entries))
                evicted.append((oldest, self._entries[oldest][0]))
                self._drop(oldest)
            self._entries[key] = (value, nbytes)
            self._nbytes += nbytes
            return evicted

    def computed(self, key: K, compute: Callable[[], V], size: Callable[[V], int], *, drops: int | None = None) -> V:
        """Return the value of `key`; if it is not cached, compute it, and cache it unless values are removed meanwhile.

        size: returns the bytes of a value. drops: `self.drops` when the value was requested; by default, now.
        """
        if (kept := self.get(key)) is not None:
            return kept
        drops = self._drops if drops is None else drops
        value = compute()
        self.put(key, value, size(value), drops=drops)
        return value

    def pop(self, key: K) -> V | None:
        """Remove and return the value of `key`; None when not cached."""
        with self._lock:
            self._drops += 1
            return self._drop(key)

    def drop_where(self, unwanted: Callable[[K, V], bool]) -> None:
        """Remove every entry for whose key and value `unwanted` is true."""
        with self._lock:
            self._drops += 1
            for key in [key for key, (value, _) in self._entries.items() if unwanted(key, value)]:
                self._drop(key)

    def clear(self) -> None:
        """Remove every value."""
        with self._lock:
            self._drops += 1
            self._entries.clear()
            self._nbytes = 0

    def _drop(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        value, nbytes = entry
        self._nbytes -= nbytes
        return value
