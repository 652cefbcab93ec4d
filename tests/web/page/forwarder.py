"""A port that forwards to a server and that a test can close, as if the server's process was killed."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tests.support.ports import free_port

_RESET = b"\x01\0\0\0\0\0\0\0"  # linger for no time: closing resets the connection


class Forwarder:
    """Forwards connections to one port of this machine to another port, between `open` and `close`."""

    def __init__(self) -> None:
        self.port = free_port()
        self._listener: socket.socket | None = None
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()

    def open(self, target: int, delay: Callable[[], float] = lambda: 0.0) -> None:
        """Accept connections and forward them to the port `target`. delay: the next delay of data, in seconds."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener, target, delay), daemon=True).start()

    def close(self) -> None:
        """Refuse new connections and reset all others."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with self._lock:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # it wakes the thread that accepts
            listener.close()
            for end in self._ends:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            self._ends.clear()

    def _accept(self, listener: socket.socket, target: int, delay: Callable[[], float]) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", target))
                with self._lock:
                    self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(source, sink, delay), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, delay: Callable[[], float]) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            time.sleep(delay())
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
