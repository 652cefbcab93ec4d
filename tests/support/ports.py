"""Free ports of this machine."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

_earlier: list[int] = []  # ports of servers that have ended


def free_port(wanted: int = 0) -> int:
    """Return a free loopback port: `wanted`, if no other program has taken it."""
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", wanted))
        except OSError:
            found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def reused_port() -> Iterator[int]:
    """Yield a port for a server, an earlier server's where possible: the browser has kept the scripts of that address,
    which halves the processor time of a visit."""
    port = free_port(_earlier.pop() if _earlier else 0)
    yield port
    _earlier.append(port)
