"""Confine an attack to its folder and to loopback.

`install` adds an audit hook that refuses writes outside of the folder and connections to other machines, and logs each
attempt in a file, so that caught errors are found too. The hook does not cover C libraries; comparing two snapshots
shows their changes in the most important places.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

ESCAPES = "escapes.txt"  # in the folder
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_HARMLESS = ("/dev/null", "/dev/tty", "/dev/shm/")
# Audit events, with the positions of the changed paths and of the directory descriptors they are relative to.
_CHANGES = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.truncate": ((0, None),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
}


class Escape(RuntimeError):
    """A guarded process tried to write outside of its folder or to reach another machine."""


def install(folder: Path) -> None:
    """Guard this process permanently."""
    root = os.path.realpath(folder)
    notes = os.open(Path(root) / ESCAPES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def watch(event: str, given: tuple[Any, ...]) -> None:
        for what in _violations(event, given, root):
            os.write(notes, f"{event}: {what}\n".encode(errors="replace"))
            raise Escape(f"{event} of {what} is outside of the attack's folder.")

    sys.addaudithook(watch)


def escapes(folder: Path) -> list[str]:
    """The logged attempts of guarded processes, one per line."""
    path = folder / ESCAPES
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _violations(event: str, given: tuple[Any, ...], root: str) -> Iterator[str]:
    if event == "open":
        path, mode, flags = given
        writes = isinstance(flags, int) and flags & _WRITES
        if (writes or (isinstance(mode, str) and set(mode) & set("wax+"))) and not isinstance(path, int):
            yield from _outside(path, None, root)
    elif event in _CHANGES:
        for place, relative in _CHANGES[event]:
            descriptor = given[relative] if relative is not None and relative < len(given) else None
            yield from _outside(given[place], descriptor, root)
    elif event == "sqlite3.connect":
        if given[0] not in (":memory:", b":memory:", ""):
            yield from _outside(str(given[0]).removeprefix("file:").partition("?")[0], None, root)
    elif event in ("socket.connect", "socket.sendto", "socket.bind"):
        yield from _remote_host(given[1])
    elif event == "socket.getaddrinfo":
        yield from _remote_host((given[0],))


def _outside(path: Any, descriptor: Any, root: str) -> Iterator[str]:
    if isinstance(path, int):
        return
    text = os.fsdecode(path)
    if isinstance(descriptor, int) and descriptor >= 0:
        text = os.path.join(Path(f"/proc/self/fd/{descriptor}").readlink(), text)  # noqa: PTH118
    # The last part may itself be a link that is changed, so only its parents are resolved.
    parent, name = os.path.split(os.path.abspath(text))  # noqa: PTH100
    real = os.path.join(os.path.realpath(parent), name)  # noqa: PTH118
    if not (real == root or real.startswith((f"{root}{os.sep}", f"/proc/{os.getpid()}/", *_HARMLESS))):
        yield real


def _remote_host(address: Any) -> Iterator[str]:
    if not isinstance(address, tuple) or not address or address[0] in (None, "", b"", "localhost", b"localhost"):
        return
    host = os.fsdecode(address[0]) if isinstance(address[0], bytes) else str(address[0])
    try:
        if not ip_address(host.partition("%")[0]).is_loopback:
            yield host
    except ValueError:
        if not host.endswith(".localhost"):
            yield host


def snapshot(*trees: Path) -> dict[str, tuple[Any, ...]]:
    """The state of /etc, devices and the source trees. `changed` compares two snapshots."""
    kept: dict[str, tuple[Any, ...]] = {}
    for tree in (Path("/etc"), *trees):
        for path in _files(tree):
            with suppress(FileNotFoundError):  # deleted in the meantime, which counts as a change
                state = path.lstat()
                kept[str(path)] = (state.st_mode, state.st_uid, state.st_size, state.st_mtime_ns)
    for path in Path("/dev").glob("*"):
        state = path.lstat()
        if stat.S_ISCHR(state.st_mode) or stat.S_ISBLK(state.st_mode):
            kept[str(path)] = (state.st_mode, state.st_uid, state.st_rdev)
    return kept


def changed(before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]]) -> list[str]:
    """The paths that are new, gone or different."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _files(tree: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        yield from (Path(place) / name for name in files if not name.endswith(".pyc"))
