"""Disk space reserved for deletions: SQLite writes to its log before a deletion frees space."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from storage import durable_files

RESERVE_BYTES = 8 << 20  # a log of about two thousand pages


class DiskReserve:
    """A file beside the database that occupies space until a deletion needs it."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-reserve")

    def make(self) -> None:
        """Create the reserve if at least as much space stays free. Raises OSError."""
        has = self._size()
        if has < RESERVE_BYTES and self._free() + has >= 2 * RESERVE_BYTES:
            self._take(RESERVE_BYTES)

    def release(self) -> None:
        """Free the space. Raises OSError."""
        self._path.unlink(missing_ok=True)

    def restore(self) -> None:
        """Occupy the space again after `release`, or as much as is free. Raises OSError."""
        self._take(min(RESERVE_BYTES, self._free()))

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _free(self) -> int:
        return shutil.disk_usage(self._path.parent).free

    def _take(self, size: int) -> None:
        self.release()
        try:
            self._allocate(size)
        except OSError as error:
            self.release()
            if not durable_files.is_full(error):
                raise

    def _allocate(self, size: int) -> None:
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.write(descriptor, bytes(size))
        finally:
            os.close(descriptor)
