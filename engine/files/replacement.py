"""Atomic replacement of regular files, which keep their mode, owner and group.

target = target_of(path)             # resolves links: nothing yet, or a regular file
data = read(target, limit)           # never waits for a pipe, never touches a device
replaced = replace(target, new)      # False when the file was replaced since `target_of`
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.errors import InvalidInput

_OTHERS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class TargetChanged(InvalidInput):
    """The file was replaced while it was read."""


@dataclass(frozen=True)
class Target:
    """A file that may be replaced, or the name of a new file in an existing folder.

    given: the path as entered; path: with links resolved; status: of the file, None where there is none yet.
    """

    given: Path
    path: Path
    status: os.stat_result | None


def target_of(given: Path) -> Target:
    """Resolve a path without opening it. Raises InvalidInput for anything that cannot be replaced as a file."""
    try:
        if os.path.lexists(given):
            path = Path(os.path.realpath(given, strict=True))
            return Target(given, path, _regular(given, path.lstat()))
        folder = Path(os.path.realpath(given.parent, strict=True))
    except FileNotFoundError as error:
        what = "is a link to nothing" if os.path.lexists(given) else "is in a folder that does not exist"
        raise InvalidInput(f"{given} {what}; name another file.") from error
    except OSError as error:
        raise InvalidInput(f"{given} cannot be reached: {error.strerror}.") from error
    if not folder.is_dir():
        raise InvalidInput(f"{given} is in no folder; name another file.")
    return Target(given, folder / given.name, None)


@contextmanager
def opened(target: Target) -> Iterator[BinaryIO]:
    """Open the target's file. Raises InvalidInput when it cannot be read, or was replaced since `target_of`."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(target.path, flags)
    except OSError as error:
        raise InvalidInput(f"{target.given} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as file:
        if not _same(os.fstat(descriptor), target.status):
            raise TargetChanged(f"{target.given} changed while it was read; try again.")
        yield file


def read(target: Target, limit: int) -> bytes:
    """Read the whole file. Raises InvalidInput when it is longer than `limit` bytes or cannot be read."""
    with opened(target) as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise InvalidInput(f"{target.given} cannot be read: {error.strerror}.") from error
    if len(data) > limit:
        raise InvalidInput(f"{target.given} is larger than {limit} bytes; name another file.")
    return data


def replace(target: Target, data: bytes) -> bool:
    """Write the whole file to disk; return False, with nothing written, when the target was replaced since.

    A new file has the mode of the process's umask. Raises OSError when the folder is not writable, or when the owner or
    group of the replaced file cannot be kept.
    """
    folder = os.open(target.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _replace(folder, target, data)
    finally:
        os.close(folder)


def _replace(folder: int, target: Target, data: bytes) -> bool:
    temporary = f".reprise-{secrets.token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600 if target.status else 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if target.status:
                _keep_access(descriptor, target.status)
            os.fsync(descriptor)
        if not _same(_status(folder, target.path.name), target.status):
            return False
        os.rename(temporary, target.path.name, src_dir_fd=folder, dst_dir_fd=folder)
        _sync_folder(folder)
        return True
    finally:
        with suppress(FileNotFoundError):  # already renamed
            os.unlink(temporary, dir_fd=folder)


def _keep_access(descriptor: int, status: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))  # after the owner: changing the owner clears bits of the mode


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without fsync for folders
            raise


def _regular(given: Path, status: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        what = _OTHERS.get(stat.S_IFMT(status.st_mode), "no regular file")
        raise InvalidInput(f"{given} is {what}; only a regular file can be read and replaced.")
    return status


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Return whether both are the same file with the same content and access, or neither exists."""
    return _identity(one) == _identity(other)


def _identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    if status is None:
        return None
    return (
        status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_gid, status.st_size,
        status.st_mtime_ns,
    )  # fmt: skip
