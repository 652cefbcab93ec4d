"""Clients that disconnect, send or read a byte at a time, hold connections, or send endlessly.

During each attack, other clients must still be served.
"""

import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import httpx

from tests.attack.attack import Attack, Broken, Skipped
from tests.attack.live.guest import Guest, clip, status, wait_for_sound
from tests.attack.live.server import Server, shared_server

IDLE = 1_500
SERVED = 10.0  # seconds until another client gets the page, on a busy machine
OTHER_ADDRESS = "127.0.0.2" if sys.platform == "linux" else ""  # the address of the other clients
FREED = 60.0  # seconds until the leftovers of a client are deleted
STORY = "The rain has stopped, and the first birds are singing again. " * 40
LONGEST_UPLOAD = 400 << 20


def _server() -> Server:
    return shared_server("--owners", "browser")


def _check_others_are_served(what: str) -> None:
    began = time.monotonic()
    try:
        guest = Guest(_server(), OTHER_ADDRESS)
        guest.http.timeout = httpx.Timeout(3 * SERVED)
        guest.arrive()
    except httpx.HTTPError as error:
        raise Broken(f"During {what} another client was not served: {error!r}.") from error
    if time.monotonic() - began > SERVED:
        raise Broken(f"During {what} another client waited for {time.monotonic() - began:.1f} s.")


def _wait_until(what: str, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + FREED
    while not holds():
        if time.monotonic() > until:
            raise Broken(f"{what}, after {FREED:g} s.")
        time.sleep(0.5)


def idle_connections() -> None:
    with ExitStack() as stack:
        try:
            for _ in range(IDLE):
                stack.enter_context(socket.create_connection(("127.0.0.1", _server().port), timeout=5))
        except OSError as error:
            if "Too many open files" in str(error):
                raise Skipped(f"{IDLE} connections need a higher limit of open files (ulimit -n).") from error
        _check_others_are_served(f"{IDLE} idle connections")


def slow_heads() -> None:
    """Requests whose headers never end."""
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", _server().port), timeout=5)) for _ in range(100)
        ]
        for number in range(10):
            for connection in held:
                with suppress(OSError):
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"[number : number + 1])
            time.sleep(0.5)
        _check_others_are_served("100 requests sent a byte at a time")


def slow_bodies() -> None:
    guest = Guest(_server())
    with ExitStack() as stack:
        head = guest.head("POST", "/gradio_api/run/predict", Content_Type="application/json", Content_Length="100000")
        held = [stack.enter_context(guest.connect()) for _ in range(50)]
        for connection in held:
            connection.sendall(head)
        for _ in range(5):
            for connection in held:
                with suppress(OSError):
                    connection.sendall(b"[")
            time.sleep(0.5)
        _check_others_are_served("50 bodies sent a byte at a time")


def slow_readers() -> None:
    """More takes than slots, each read at one byte per second."""
    guests = [Guest(_server()) for _ in range(6)]
    with ExitStack() as stack:
        for guest in guests:
            guest.arrive()
            stream = guest.begin_take(STORY)
            stack.callback(stream.close)
        time.sleep(5)
        _check_others_are_served("six takes that are hardly read")
    _wait_until("A take that nobody reads still has its slot", lambda: not status(guests[0])["speaking"])


def vanish_in_a_take() -> None:
    """Each listener disconnects at the first chunk; the slots are freed."""
    for _ in range(8):
        guest = Guest(_server())
        guest.arrive()
        stream = guest.begin_take(STORY)
        wait_for_sound(stream)
        stream.close()
        guest.http.close()
    watcher = Guest(_server())
    watcher.arrive()
    _wait_until("A take without a listener still has its slot", lambda: not status(watcher)["speaking"])


def vanish_in_an_upload() -> None:
    """Repeated half uploads; nothing of them stays."""
    guest, server = Guest(_server()), _server()
    before = server.uploaded()
    body = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.wav"\r\n\r\n' + clip() * 20
    for _ in range(20):
        size = str(2 * len(body))
        head = guest.head(
            "POST", "/gradio_api/upload", Content_Type="multipart/form-data; boundary=b", Content_Length=size
        )
        with guest.connect() as connection:
            connection.sendall(head + body)
    _wait_until("Half uploads are still there", lambda: server.uploaded() <= before + len(body))


def endless_upload() -> None:
    """A chunked body without end; the server closes the connection and keeps nothing."""
    guest, server = Guest(_server()), _server()
    before, sent = server.uploaded(), 0
    head = guest.head(
        "POST", "/gradio_api/upload", Content_Type="multipart/form-data; boundary=b", Transfer_Encoding="chunked"
    )
    start = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.wav"\r\n\r\n'
    block = b"\0" * (1 << 20)
    with guest.connect() as connection, suppress(OSError):
        connection.sendall(head + _chunk(start))
        while sent < LONGEST_UPLOAD:
            connection.sendall(_chunk(block))
            sent += len(block)
    if sent >= LONGEST_UPLOAD:
        raise Broken(f"An upload of {sent >> 20} MiB was accepted.")
    _wait_until("An endless upload is still there", lambda: server.uploaded() <= before + (1 << 20))


def many_uploads() -> None:
    """Many large files of one visitor: beyond the limit they are refused with a message."""
    guest, server = Guest(_server()), _server()
    for number in range(30):
        answer = guest.http.post("gradio_api/upload", files={"files": (f"{number}.wav", bytes([number]) * (24 << 20))})
        if answer.status_code in (413, 429, 503, 507):
            return
        answer.raise_for_status()
    raise Broken(f"One visitor left {server.uploaded() >> 20} MiB of uploads.")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


WAYS = {
    way.__name__: way
    for way in (
        idle_connections, slow_heads, slow_bodies, slow_readers, vanish_in_a_take, vanish_in_an_upload, endless_upload,
        many_uploads,
    )
}  # fmt: skip


def _cases(seed: int, count: int) -> Iterator[str]:
    yield from list(WAYS)[:count]


def _run(name: str) -> None:
    WAYS[name]()
    _server().check_log()


SLOW = Attack("slow clients", "vanishing, slow, idle and endless ones", _cases, _run, len(WAYS), 300.0, None, True)
