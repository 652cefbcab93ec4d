"""The private folder of one server process, for uploads and Gradio's files.

A server holds a lock (flock) on a file in its folder while it runs. At startup, it deletes each folder of the same user
whose lock is free: the server of that folder was killed.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

PREFIX = "reprise-"
LOCK = ".server"  # the locked file; a folder without it is not a server's
_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as named by tempfile.mkdtemp


@contextmanager
def private_folder() -> Iterator[str]:
    """Create a private folder, deleted on exit. Folders of killed servers are deleted first."""
    sweep()
    folder, lock = _locked_folder()
    # Gradio reads the variable whenever it builds a page.
    before = os.environ.get("GRADIO_TEMP_DIR")
    os.environ["GRADIO_TEMP_DIR"] = str(folder)
    try:
        yield str(folder)
    finally:
        _delete(folder)
        os.close(lock)
        if before is None:
            del os.environ["GRADIO_TEMP_DIR"]
        else:
            os.environ["GRADIO_TEMP_DIR"] = before


def sweep() -> None:
    """Delete the folders of killed servers."""
    try:
        found = [path for path in Path(tempfile.gettempdir()).iterdir() if _NAME.fullmatch(path.name)]
    except OSError as error:
        log.warning("Folders that killed servers left cannot be looked for (%s).", error.strerror)
        return
    for folder in found:
        if _is_ours(folder) and (lock := _lock_left(folder)) is not None:
            try:
                _delete(folder)
            finally:
                os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """Create a folder; return it with the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError):  # another server may delete an empty folder
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            if _lock(lock) is not False and os.fstat(lock).st_nlink:
                return folder, lock
            os.close(lock)  # deleted before it was locked


def _lock_left(folder: Path) -> int | None:
    """Acquire the lock of an abandoned folder; return None if a process holds it or it is not a server's folder."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        with suppress(OSError):  # not empty, or deleted by another server
            folder.rmdir()
        return None
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(lock).st_mode) and _lock(lock) and os.fstat(lock).st_nlink:  # not deleted meanwhile
        return lock
    os.close(lock)
    return None


def _lock(descriptor: int) -> bool | None:
    """Try to lock a file; return whether it succeeded. None: the file system has no locks, so delete nothing."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_ours(folder: Path) -> bool:
    """Return whether this is a real folder that only this user can access."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    own = status.st_uid == os.geteuid()
    return own and stat.S_ISDIR(status.st_mode) and status.st_mode & 0o777 == 0o700


def _delete(folder: Path) -> None:
    """Delete a folder whose lock is held. The lock file goes last, so that the next start can finish the deletion."""
    try:
        while True:
            _empty(folder)
            (folder / LOCK).unlink(missing_ok=True)
            try:
                folder.rmdir()
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # an upload is still arriving
                    raise
    except OSError as error:
        log.warning("A folder of uploads could not be deleted (%s); the next start tries again.", error.strerror)


def _empty(folder: Path) -> None:
    """Delete everything in a folder except the lock file. Symbolic links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name != LOCK:
                Path(entry.path).unlink(missing_ok=True)
