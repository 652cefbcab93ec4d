"""Snapshots of a SQLite library in a folder that outlives the machine, such as a mounted bucket.

SQLite's locks and write-ahead log need a local disk, which such a machine loses at every start. So the library is on
the local disk, and its latest state is saved as one file in the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from storage import durable_files
from storage.database_errors import unavailable
from storage.errors import DatabaseUnavailable
from storage.sqlite.backup import back_up, is_whole
from storage.sqlite.connection import LOG_FILES, SIDE_FILES

log = logging.getLogger(__name__)

PREFIX, SUFFIX = "library-", ".sqlite"
LONGEST_TURN = 600.0  # seconds that another process is waited for; a large library is copied to a bucket in minutes
_RETRY = 0.1  # seconds
PROBE = "writable"  # name of a file that is written to find out whether the folder can be written


class LibrarySnapshots:
    """The snapshots of one database file. Only the latest is kept, so that deleted data is gone with the next one.

    Snapshots of another library are never replaced: they may be all that is left of it. Several processes of one
    library take turns.
    """

    def __init__(self, database: str | Path, folder: str | Path) -> None:
        """folder: created if it is missing."""
        self._database = durable_files.expanded(database).resolve()  # SQLite's logs are beside what a link refers to
        self._folder = durable_files.expanded(folder)
        self._state: tuple[int, ...] | None = None  # of the files when the last snapshot was taken
        self._last: Path | None = None  # the last snapshot taken

    def restore(self) -> bool:
        """Restore a missing database from the latest intact snapshot; return whether that was done.

        Damaged snapshots are skipped. Raises DatabaseUnavailable if all are damaged: an empty library would replace
        them at the next save.
        """
        found = [] if self._has_library() else self._found()
        if not found:
            return False
        self._database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._turn():
            if self._has_library():  # another process was first
                return False
            if not any(map(self._put_back, reversed(found))):
                raise DatabaseUnavailable("database.damaged", detail=f"No snapshot in {self._folder} can be read.")
        return True

    def check(self) -> None:
        """Raise DatabaseUnavailable if the folder cannot be written, or has a snapshot of another library."""
        try:
            with self._turn():
                # As a snapshot is written: buckets lack other operations.
                durable_files.write(self._folder / PROBE, b"")
                durable_files.delete(self._folder / PROBE)
        except OSError as error:
            raise self._not_saved(error) from error
        if self._of_another_library(self._found()):
            raise self._refusal()

    def save(self) -> bool:
        """Take a snapshot if the database has changed since the last one; return whether one was taken.

        Raises DatabaseUnavailable, also for a damaged database: the last snapshot is kept then.
        """
        state = tuple(value for status in self._files() for value in (status.st_mtime_ns, status.st_size))
        if not state or state == self._state:
            return False
        with self._turn():
            if not self._replace():
                return False
        self._state = state
        return True

    def _replace(self) -> bool:
        """Replace the snapshot, unless it is another library's; return whether that was done."""
        try:
            durable_files.make_folder(self._folder)
            before = self._found()
            if self._of_another_library(before):  # of a disk that was mounted after the start
                log.error("%s", self._refusal())
                return False
            # Of a process that ended while copying.
            for leftover in self._folder.glob(f"{PREFIX}*{durable_files.UNFINISHED}"):
                leftover.unlink(missing_ok=True)
            with self._scratch() as local:
                copy = local / "copy"
                back_up(self._database, copy)
                # A bucket has no atomic rename; a snapshot that is not whole is skipped by `restore`.
                # Later than the others, even if the clock was set back.
                number = max([time.time_ns(), *(1 + _number(path) for path in before)])
                self._last = self._folder / f"{PREFIX}{number:020d}{SUFFIX}"
                durable_files.copy(copy, self._last)
            for path in before:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise self._not_saved(error) from error
        except sqlite3.Error as error:
            raise unavailable(error, str(self._database)) from error
        return True

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for other processes that restore or save snapshots of this library, and exclude them in the block."""
        folder = os.open(self._database.parent, os.O_RDONLY)
        try:
            self._lock(folder)
            yield
        finally:
            with contextlib.suppress(OSError):  # not only by closing: a process that was forked meanwhile has it open
                fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)

    def _lock(self, folder: int) -> None:
        until = time.monotonic() + LONGEST_TURN
        while True:
            try:
                return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    detail = f"{self._folder}: Another process saves or restores a snapshot for too long."
                    raise DatabaseUnavailable("database.busy", detail=detail) from error
            except OSError:  # a file system without locks
                return None
            time.sleep(_RETRY)

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Create a private folder for the block. Those of killed processes, with data deleted since, are deleted."""
        prefix = f"reprise-snapshot-{hashlib.sha256(os.fsencode(self._database)).hexdigest()[:16]}-"
        for leftover in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)

    def _has_library(self) -> bool:
        """Whether there is a database. An empty file without a log is none: its process ended before it created it."""
        return self._database.exists() and any(status.st_size for status in self._files())

    def _found(self) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(self._folder.glob(f"{PREFIX}*{SUFFIX}"), key=lambda path: (_number(path), path.name))
        return []

    def _of_another_library(self, found: list[Path]) -> bool:
        """Whether one of these snapshots was not taken of this library: it has secrets that the library lacks."""
        others = [path for path in found if path != self._last]
        return bool(others) and not frozenset().union(*map(_secrets, others)) <= _secrets(self._database, opened=True)

    def _refusal(self) -> DatabaseUnavailable:
        return DatabaseUnavailable("database.other_snapshot", folder=str(self._folder), database=str(self._database))

    def _not_saved(self, error: OSError) -> DatabaseUnavailable:
        return DatabaseUnavailable("database.no_snapshot", folder=str(self._folder), detail=str(error))

    def _files(self) -> list[os.stat_result]:
        """Status of the database and its log. Sizes and times change with each transaction."""
        found: list[os.stat_result] = []
        for path in (self._database, self._database.with_name(self._database.name + "-wal")):
            with contextlib.suppress(FileNotFoundError):
                found.append(path.stat())
        return found

    def _put_back(self, snapshot: Path) -> bool:
        local = self._database.with_name(self._database.name + ".new")
        try:
            durable_files.copy(snapshot, local)
            local.chmod(0o600)
            with contextlib.closing(sqlite3.connect(local)) as copy:
                whole = is_whole(copy)
        except (OSError, sqlite3.Error) as error:
            log.warning("The snapshot %s cannot be read: %s", snapshot, error)
            whole = False
        if not whole:
            _remove(local, "", *SIDE_FILES)
            return False
        _remove(self._database, *LOG_FILES)  # of the lost database: SQLite would replay them into this one
        local.replace(self._database)
        durable_files.sync_folder(self._database.parent)
        log.info("The library was restored from %s.", snapshot)
        return True


def _number(snapshot: Path) -> int:
    """Return the number in a snapshot's name, by which the latest is known; -1 for a name without one."""
    digits = snapshot.name.removeprefix(PREFIX).removesuffix(SUFFIX)
    return int(digits) if re.fullmatch("[0-9]{1,40}", digits) else -1


def _secrets(database: Path, *, opened: bool = False) -> frozenset[tuple[str, bytes]]:
    """Return a library's secrets (`storage/repositories/secrets.py`), by which it is known; none if it is damaged.

    opened: whether a process uses it; for other files, SQLite would make a log.
    """
    where = f"{database.absolute().as_uri()}?mode=ro" + ("" if opened else "&immutable=1")
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(where, uri=True)) as connection:
        return frozenset(connection.execute("SELECT name, value FROM server_secrets"))
    return frozenset()


def _remove(database: Path, *suffixes: str) -> None:
    """Remove the files of a database that have these suffixes."""
    for suffix in suffixes:
        database.with_name(database.name + suffix).unlink(missing_ok=True)
