"""Room on the disk that is kept for deleting: SQLite writes to its log before anything is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

RESERVE_BYTES = 8 << 20  # a log of about two thousand pages


class Reserve:
    """A file beside the database that takes room until a deletion needs it."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-reserve")

    def make(self) -> bool:
        """Take the room, if there is as much again; returns whether the reserve is there."""
        if self._whole():
            return True
        self.give_up()
        if shutil.disk_usage(self._path.parent).free < 2 * RESERVE_BYTES:
            return False
        try:
            self._allocate()
        except OSError as error:
            self.give_up()
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return False
        return True

    def give_up(self) -> None:
        """Free the room."""
        self._path.unlink(missing_ok=True)

    def _whole(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self._path.stat().st_size == RESERVE_BYTES
        return False

    def _allocate(self) -> None:
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            else:
                os.write(descriptor, bytes(RESERVE_BYTES))
        finally:
            os.close(descriptor)
