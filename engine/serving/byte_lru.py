"""A cache that is bounded by the bytes in it and forgets first what was used longest ago."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteLRU(Generic[K, V]):
    """At most `limit` bytes of values by key. Any number of threads may use it at once.

    Sizes are the caller's word: a value must not grow while it is in here.
    """

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"The limit is {limit} bytes; it cannot be negative.")
        self.limit = limit
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()  # used longest ago first
        self._nbytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of all values in here."""
        return self._nbytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """The value of `key`, which now counts as used last; None when it is not here."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: K, value: V, nbytes: int) -> list[tuple[K, V]]:
        """Keep `value`, of `nbytes` bytes, in place of whatever `key` had before.

        Returns what had to go for it, used longest ago first; a value above the limit is not kept and is itself what
        is returned. The value that `key` had before is out of date rather than evicted, and is not returned.
        Raises ValueError when `nbytes` is negative.
        """
        if nbytes < 0:
            raise ValueError(f"A value cannot have {nbytes} bytes.")
        with self._lock:
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

    def pop(self, key: K) -> V | None:
        """Take the value of `key` out; None when it is not here."""
        with self._lock:
            return self._drop(key)

    def drop_where(self, unwanted: Callable[[V], bool]) -> None:
        """Forget every value of which this is true."""
        with self._lock:
            for key in [key for key, (value, _) in self._entries.items() if unwanted(value)]:
                self._drop(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._nbytes = 0

    def _drop(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        value, nbytes = entry
        self._nbytes -= nbytes
        return value
