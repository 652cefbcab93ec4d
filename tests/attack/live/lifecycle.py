"""Servers stopped, killed and restarted while takes are running."""

import signal
from collections.abc import Iterator
from contextlib import suppress

import httpx

from tests.attack.attack import Attack, Broken
from tests.attack.live.guest import Guest, clip, wait_for_sound
from tests.attack.live.server import Server
from tests.attack.live.slow import STORY

CLEAN = (0, 128 + signal.SIGTERM, -signal.SIGTERM)


def asked_to_stop() -> None:
    """SIGTERM during two takes: a clean exit, and an empty temporary folder."""
    server = Server("--owners", "browser").wait_until_started()
    try:
        streams = [_speaking(server) for _ in range(2)]
        server.signal(signal.SIGTERM)
        code = server.wait_for_exit()
        for stream in streams:
            with suppress(httpx.HTTPError):
                stream.close()
    finally:
        server.stop()
    if code not in CLEAN:
        raise Broken(f"The server ended with exit code {code}:\n" + "\n".join(server.log[-10:]))
    if server.leftovers():
        raise Broken(f"A stopped server left {', '.join(server.leftovers()[:5])}.")
    server.check_log(STORY[:40])


def killed() -> None:
    """SIGKILL during a take: the next server deletes the leftovers, and all voices exist."""
    server = Server("--owners", "browser").wait_until_started()
    guest = Guest(server)
    guest.arrive()
    voices = {guest.keep_voice(f"Voice {number}") for number in range(3)}
    guest.upload(clip())
    stream = _speaking(server)
    server.stop()
    with suppress(httpx.HTTPError):
        stream.close()
    before = set(server.leftovers())
    if not before:
        raise Broken("A killed server left no folder: this attack reads the wrong place.")
    after = Server("--owners", "browser", folder=server.folder).wait_until_started()
    try:
        kept = before & set(after.leftovers())
        if kept:
            raise Broken(f"Leftovers of a killed server were not deleted: {', '.join(sorted(kept)[:5])}.")
        again = Guest(after)
        again.token = guest.token
        if not voices <= {voice["id"] for voice in again.voices()}:
            raise Broken("A saved voice is missing after a kill.")
        after.check_log()
    finally:
        after.stop()


def a_neighbour() -> None:
    """Two servers with one temporary folder: a starting server does not touch the other's files."""
    first = Server("--owners", "browser").wait_until_started()
    try:
        guest = Guest(first)
        guest.arrive()
        guest.upload(clip())
        before = set(first.leftovers())
        second = Server(
            "--owners", "browser", folder=first.folder, database=first.folder / "second.db"
        ).wait_until_started()
        second.stop()
        if not before <= set(first.leftovers()):
            raise Broken("A starting server deleted files of a running one.")
    finally:
        first.stop()


def _speaking(server: Server) -> httpx.Response:
    guest = Guest(server)
    guest.arrive()
    stream = guest.begin_take(STORY)
    wait_for_sound(stream)
    return stream


WAYS = {way.__name__: way for way in (asked_to_stop, killed, a_neighbour)}


def _cases(seed: int, count: int) -> Iterator[str]:
    yield from [name for _ in range(count) for name in WAYS][:count]


def _run(name: str) -> None:
    WAYS[name]()


LIFECYCLE = Attack("ends", "SIGTERM and SIGKILL while people speak", _cases, _run, 6, 240.0, None, alone=True)
