"""Paths of local files, and changes of them that survive a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

UNFINISHED = ".new"  # suffix of a file while it is written
_NO_SYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)  # of file systems without it, such as some mounted buckets


def expanded(path: str | Path) -> Path:
    """Return a path with a home folder in place of its “~”; unchanged if there is no such folder, as in a shell."""
    with contextlib.suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def is_full(error: OSError) -> bool:
    """Return whether a file system has no room left, for anybody or for this user."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def write(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, which is whole and on the disk once it has its name. Its folders are created.

    Raises OSError.

    If this raises or the process ends, a file with the suffix `UNFINISHED` may be left.
    """
    with _replaced(path) as file:
        file.write(data)


def copy(source: Path, path: Path) -> None:
    """Copy a file; otherwise like `write`."""
    with source.open("rb") as read, _replaced(path) as file:
        shutil.copyfileobj(read, file)


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces the one at `path` at the end of the block."""
    make_folder(path.parent)
    unfinished = path.with_name(path.name + UNFINISHED)
    with open(unfinished, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        yield file
        file.flush()
        _sync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def delete(*paths: Path) -> None:
    """Delete files of one folder, which may be missing; the deletion survives a power cut. Raises OSError."""
    for path in paths:
        path.unlink(missing_ok=True)
    sync_folder(paths[0].parent)


def make_folder(folder: Path) -> None:
    """Create a folder, for its owner alone, and its parents if they are missing. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    with contextlib.suppress(OSError):  # where folders cannot be opened or synced, as on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
