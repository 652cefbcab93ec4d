"""Uploads on the disk: each in a folder with an unguessable name, limited in bytes, number and age.

An open page says every few minutes that it still needs its clips (`web.uploads.mark_used`), and one that is closed
discards them. What nobody has used for longer belongs to a page that is gone, or to a device that sleeps: it stays for
hours, but makes room for new uploads, the oldest first.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from studio.file_names import safe_file_name

KEPT, KEPT_OF_ONE = 2 << 30, 300 << 20  # bytes: of all visitors, of an address
FILES_OF_ONE = 250
SPARE = 256 << 20  # bytes of free disk space
HOURS = 6.0  # longer than any job
IDLE = 30 * 60.0  # seconds without use; three times as long as an open page waits (recorder.js)

FULL = "Too many of your files are waiting on the server. Use or remove some, or try again later."
NO_ROOM = "The server has no room for files at present. Try again later."

_Sizes = dict[Path, int]  # bytes by file


class UploadStore:
    """The uploads of all visitors, by address. Safe in any thread."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        """folder: of all uploads. clock: as that of the file system."""
        self._folder, self._clock = folder, clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Sizes] = {}

    def keep(self, file: BinaryIO, name: str, address: str) -> Path:
        """Store a complete file under its name. Raises OSError; nothing is left then."""
        folder = self._folder / secrets.token_hex(16)
        path = folder / safe_file_name(name)[-120:]
        folder.mkdir(mode=0o700)
        try:
            with path.open("wb") as kept:
                shutil.copyfileobj(file, kept, 1 << 20)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            self._kept.setdefault(address, {})[path] = path.stat().st_size
        return path

    def refusal(self, address: str, most: int) -> str:
        """Why an address may not upload `most` bytes more; "" where it may, perhaps in place of old uploads."""
        with self._lock:
            self._tidy()
            own = self._kept.get(address, {})
            if not self._make_room(own, lambda: sum(own.values()) < KEPT_OF_ONE and len(own) < FILES_OF_ONE):
                return FULL
            return "" if self._make_room(self._all(), lambda: self._has_room(most)) else NO_ROOM

    def expire(self) -> None:
        """Delete files that were not used for hours. Call it periodically."""
        with self._lock:
            self._tidy()
            for path in self._unused_for(HOURS * 3600, self._all()):
                self._delete(path)

    def _all(self) -> list[Path]:
        return [path for own in self._kept.values() for path in own]

    def _has_room(self, most: int) -> bool:
        kept = sum(size for own in self._kept.values() for size in own.values())
        return kept < KEPT and shutil.disk_usage(self._folder).free >= SPARE + most

    def _make_room(self, files: Iterable[Path], enough: Callable[[], bool]) -> bool:
        """Delete idle files, the oldest first, until there is enough room; return whether there is."""
        for path in self._unused_for(IDLE, files):
            if enough():
                break
            self._delete(path)
        return enough()

    def _unused_for(self, seconds: float, files: Iterable[Path]) -> list[Path]:
        """The files that were not used for so long, the longest unused first."""
        before = self._clock() - seconds
        return [path for used, path in sorted((_last_use(path), path) for path in files) if used < before]

    def _delete(self, path: Path) -> None:
        shutil.rmtree(path.parent, ignore_errors=True)
        for own in self._kept.values():
            own.pop(path, None)

    def _tidy(self) -> None:
        """Drop records of files that were used, and thereby deleted."""
        for own in self._kept.values():
            for path in [path for path in own if not path.exists()]:
                del own[path]
        self._kept = {address: own for address, own in self._kept.items() if own}


def _last_use(path: Path) -> float:
    with suppress(OSError):  # deleted meanwhile
        return path.stat().st_mtime
    return 0.0
