"""What a SQLite library needs beside its transactions: overwriting what was deleted, and room for deleting."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import URL, Engine
from sqlalchemy.exc import SQLAlchemyError

from storage.failures import reason_of
from storage.sqlite import erasure
from storage.sqlite.connection import connect
from storage.sqlite.reserve import Reserve

log = logging.getLogger(__name__)

_FAILURES = (SQLAlchemyError, sqlite3.Error)


class Upkeep:
    """Of one file. Methods work in any thread, and raise nothing unless they say so: what fails is done later."""

    def __init__(self, url: URL, busy_timeout: float) -> None:
        """busy_timeout: seconds to wait for other writers; for overwriting it is at most `erasure.PATIENCE`."""
        patience = min(busy_timeout, erasure.PATIENCE)
        self._erasing = connect(url, patience, "foreign_keys = OFF", "temp_store = MEMORY", keep=False)
        # So that a deletion writes few pages: those that it frees keep their bytes, to be overwritten afterwards.
        lean = connect(url, busy_timeout, "secure_delete = OFF", "cache_spill = OFF", "temp_store = MEMORY", keep=False)
        self._lean = lean.execution_options(writes=True)
        self._reserve = Reserve(Path(url.database or ""))
        self._overwriting = threading.Lock()

    def overwrite(self) -> None:
        """Overwrite what was deleted or replaced in the file and its log, unless readers are in the way."""
        try:
            with self._overwriting:
                if erasure.owed(self._erasing) and not erasure.overwrite(self._erasing):
                    log.info("The library is in use: what was deleted will be overwritten later.")
        except _FAILURES as error:
            log.warning("What was deleted could not be overwritten yet: %s.", reason_of(error))

    def truncate_log(self) -> None:
        """Empty the write-ahead log, as far as readers let it."""
        with contextlib.suppress(*_FAILURES):
            erasure.truncate_log(self._erasing)

    def make_reserve(self) -> None:
        """Have the reserve, if there is room."""
        self._reserved(self._reserve.make)

    def _reserved(self, take: Callable[[], None]) -> None:
        try:
            take()
        except OSError as error:
            log.warning("No room on the disk can be kept for deleting: %s.", error.strerror)

    @contextlib.contextmanager
    def spare_room(self) -> Iterator[Engine]:
        """For deleting on a full disk: the reserve is given up meanwhile. Raises OSError."""
        self.truncate_log()
        self._reserve.give_up()
        try:
            yield self._lean
        finally:
            self.overwrite()  # before the reserve takes the room that this needs
            self.truncate_log()
            self._reserved(self._reserve.take_back)
