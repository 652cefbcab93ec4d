"""Maintenance of a SQLite file: overwriting deleted data, the disk reserve, and a check."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import URL, Engine
from sqlalchemy.exc import SQLAlchemyError

from storage.database_errors import reason_of
from storage.errors import DatabaseUnavailable
from storage.models import Base
from storage.sqlite import erasure
from storage.sqlite.connection import connect
from storage.sqlite.reserve import DiskReserve

log = logging.getLogger(__name__)

QUICK = 0.5  # seconds: overwriting that takes longer is left to `Database.maintain`
_FAILURES = (SQLAlchemyError, sqlite3.Error)


class Maintenance:
    """Maintenance of one file. Thread-safe. Except for `check`, failures are logged, not raised, and the work is done
    later."""

    def __init__(self, url: URL, busy_timeout: float) -> None:
        """busy_timeout: seconds to wait for other writers; at most `erasure.READERS_TIMEOUT` when overwriting."""
        timeout = min(busy_timeout, erasure.READERS_TIMEOUT)
        self._erasing = connect(url, timeout, "foreign_keys = OFF", "temp_store = MEMORY", keep=False)
        # Writes few pages in a deletion: freed pages keep their bytes until they are overwritten afterwards.
        lean = connect(url, busy_timeout, "secure_delete = OFF", "cache_spill = OFF", "temp_store = MEMORY", keep=False)
        self._lean = lean.execution_options(writes=True)
        self._path = Path(url.database or "")
        self._file = _file_id(self._path)
        self._reserve = DiskReserve(self._path)
        self._busy_timeout = busy_timeout
        self._duration = 0.0  # seconds of the last complete overwriting
        self._overwriting, self._writer = threading.Lock(), threading.Lock()

    @contextlib.contextmanager
    def only_writer(self) -> Iterator[None]:
        """Keep other threads from writing and from emptying the log. Raises DatabaseUnavailable.

        SQLite before 3.51.3 can lose what is committed while another thread begins to copy the log into the file, also
        at a commit of its own (https://sqlite.org/wal.html#walresetbug).
        """
        if not self._writer.acquire(timeout=self._busy_timeout):
            raise DatabaseUnavailable("database.busy", detail=f"{self._path}: Another thread writes for too long.")
        try:
            yield
        finally:
            self._writer.release()

    def check(self) -> None:
        """Check that the path still names the opened file, and read each table's first page on a new connection, which
        has no pages in its cache. Raises DatabaseUnavailable, SQLAlchemyError.
        """
        if self._file != _file_id(self._path):
            detail = f"{self._path}: The file was deleted or replaced while it was in use."
            raise DatabaseUnavailable("database.unusable", detail=detail)
        with self._erasing.connect() as connection:
            for table in Base.metadata.sorted_tables:
                connection.exec_driver_sql(f"SELECT 1 FROM {table.name} NOT INDEXED LIMIT 1")

    def overwrite_if_quick(self) -> None:
        """Overwrite deleted and replaced data, if the last time was quick: in a large library it takes seconds."""
        if self._duration < QUICK:
            self.overwrite()

    def overwrite(self) -> None:
        """Overwrite deleted and replaced data in the file and its log, unless readers prevent it."""
        try:
            with self._overwriting:
                if not erasure.pending(self._erasing):
                    return
                begun = time.monotonic()
                if erasure.overwrite(self._erasing, self.only_writer):
                    self._duration = time.monotonic() - begun
                else:
                    log.info("The library is in use: what was deleted will be overwritten later.")
        except (*_FAILURES, DatabaseUnavailable) as error:
            log.warning("What was deleted could not be overwritten yet: %s.", reason_of(error))

    def truncate_log(self) -> None:
        """Empty the write-ahead log, as far as readers permit."""
        with contextlib.suppress(*_FAILURES, DatabaseUnavailable), self.only_writer():
            erasure.truncate_log(self._erasing)

    def make_reserve(self) -> None:
        """Create the disk reserve if there is space."""
        self._occupy(self._reserve.make)

    def _occupy(self, take: Callable[[], None]) -> None:
        try:
            take()
        except OSError as error:
            log.warning("No room on the disk can be kept for deleting: %s.", error.strerror)

    @contextlib.contextmanager
    def reserved_space(self) -> Iterator[Engine]:
        """Release the disk reserve within the block, for a deletion on a full disk. Raises OSError."""
        self.truncate_log()
        self._reserve.release()
        try:
            yield self._lean
        finally:
            self.overwrite()  # before the reserve occupies the space that this needs
            self.truncate_log()
            self._occupy(self._reserve.restore)


def _file_id(path: Path) -> tuple[int, int] | None:
    """Return numbers that identify a file; None if there is none."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None
