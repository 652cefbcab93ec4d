"""Messages from any thread, and from finalizers, to one thread.

The garbage collector may run a finalizer in any thread at any moment, even while that thread holds a lock. Code that a
finalizer calls must therefore take no lock: it sets a flag and calls `wake`.
"""

import threading
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

M = TypeVar("M")


class Inbox(Generic[M]):
    """A queue of messages that one thread reads and any thread may send."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[M | None] = SimpleQueue()  # its `put` is reentrant; None only wakes the reader
        self._sending = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def send(self, message: M) -> bool:
        """Send a message. Returns whether it will be read: False once the inbox is closed."""
        with self._sending:
            if not self._closed:
                self._queue.put(message)
            return not self._closed

    def wake(self) -> None:
        """Wake the reader so that it checks its flags. The only method that finalizers may call."""
        self._queue.put(None)

    def close(self) -> None:
        """Refuse further messages; those already sent can still be read."""
        with self._sending:
            self._closed = True
        self.wake()

    @property
    def empty(self) -> bool:
        return self._queue.empty()

    def read(self) -> list[M]:
        """Take all messages, oldest first."""
        found: list[M] = []
        while True:
            try:
                message = self._queue.get_nowait()
            except Empty:
                return found
            if message is not None:
                found.append(message)

    def wait(self) -> list[M]:
        """Wait for a message or a `wake`, then `read`."""
        first = self._queue.get()
        return ([] if first is None else [first]) + self.read()
