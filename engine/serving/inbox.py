"""Messages to a thread, from any other and from finalizers.

The garbage collector may run a finalizer in any thread and at any moment, also while that thread holds a lock. What a
finalizer calls must therefore take no lock: it sets a flag and calls `wake`.
"""

import threading
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

M = TypeVar("M")


class Inbox(Generic[M]):
    """What one thread reads and any other may send."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[M | None] = SimpleQueue()  # its `put` may interrupt itself; None only wakes
        self._sending = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def send(self, message: M) -> bool:
        """Whether it will be read: False once the inbox is closed."""
        with self._sending:
            if not self._closed:
                self._queue.put(message)
            return not self._closed

    def wake(self) -> None:
        """Wake the reader, which is to look at what has changed. The only method for finalizers."""
        self._queue.put(None)

    def close(self) -> None:
        """Nothing more comes in; what is in can still be read."""
        with self._sending:
            self._closed = True
        self.wake()

    @property
    def empty(self) -> bool:
        return self._queue.empty()

    def read(self) -> list[M]:
        """What has come, oldest first."""
        found: list[M] = []
        while True:
            try:
                message = self._queue.get_nowait()
            except Empty:
                return found
            if message is not None:
                found.append(message)

    def wait(self) -> list[M]:
        """As `read`, once something has come or somebody nudged."""
        first = self._queue.get()
        return ([] if first is None else [first]) + self.read()
