"""The folder of one server process, for uploads and finished takes; folders of servers that were killed are deleted.

A server holds a lock (flock) on a file in its folder for as long as it lives. At start, each folder of the same user
whose lock nobody holds is deleted.
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
LOCK = ".server"  # the file that is locked; a folder without it is none of a server's
_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as tempfile.mkdtemp makes them


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder of this process alone for uploads and finished takes; it goes when the process goes.

    What servers left that were killed goes before.
    """
    sweep()
    folder, lock = _locked_folder()
    # Gradio reads it whenever it makes a page.
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
    """Delete the folders of servers that live no more."""
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
    """A new folder and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError):  # an empty folder may be swept
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            if _lock(lock) is not False and os.fstat(lock).st_nlink:
                return folder, lock
            os.close(lock)  # a sweep was between the file and its lock


def _lock_left(folder: Path) -> int | None:
    """The lock of a folder that no process holds, held by now; None where one does, or where it is no server's."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        with suppress(OSError):  # it is not empty, or somebody else swept it
            folder.rmdir()
        return None
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(lock).st_mode) and _lock(lock) and os.fstat(lock).st_nlink:  # no other sweep was faster
        return lock
    os.close(lock)
    return None


def _lock(descriptor: int) -> bool | None:
    """Whether the lock is held now; None where the file system has no locks, so that nothing on it is swept."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_ours(folder: Path) -> bool:
    """Whether it is a real folder of this user that nobody else may enter."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    own = status.st_uid == os.geteuid()
    return own and stat.S_ISDIR(status.st_mode) and status.st_mode & 0o777 == 0o700


def _delete(folder: Path) -> None:
    """Delete a folder whose lock is held. The lock's file is the last to go: what is broken off is done next time."""
    try:
        while True:
            _empty(folder)
            (folder / LOCK).unlink(missing_ok=True)
            try:
                folder.rmdir()
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # an upload that still arrives
                    raise
    except OSError as error:
        log.warning("A folder of uploads could not be deleted (%s); the next start tries again.", error.strerror)


def _empty(folder: Path) -> None:
    """Delete everything in a folder but the lock's file. Links are deleted, not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name != LOCK:
                Path(entry.path).unlink(missing_ok=True)
