"""Uploads on disk: each in a folder with an unguessable name, limited in bytes, number and age.

An open page marks its clips as used every few minutes (`files.mark_used`) and discards them when it is closed. Files
unused for longer belong to a page that is gone or to a sleeping device: they are kept for hours, but are deleted when
new uploads need the room, oldest first.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from engine.messages import UserMessage
from storage.validation import new_id
from studio.files.file_names import safe_file_name

KEPT, KEPT_OF_ONE = 2 << 30, 300 << 20  # bytes: in all, per address
FILES_OF_ONE = 250
SPARE = 256 << 20  # bytes of free disk space
MAX_NAME = 120  # bytes; file systems allow 143 to 255
HOURS = 6.0  # longer than any job
IDLE = 30 * 60.0  # seconds without use; three times the interval at which an open page marks its clips (recorder.js)

FULL = UserMessage("upload.full")
NO_ROOM = UserMessage("upload.no_room")

_Sizes = dict[Path, int]  # bytes by file


class UploadStore:
    """The uploads of all visitors, by address. Thread-safe."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        """folder: the upload folder. clock: in the file system's time."""
        self._folder, self._clock = folder, clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Sizes] = {}

    def keep(self, file: BinaryIO, name: str, address: str) -> Path:
        """Store a complete file under its name. Raises OSError, leaving no file."""
        folder = self._folder / new_id()
        path = folder / safe_file_name(name).encode()[-MAX_NAME:].decode(errors="ignore")  # keeps the suffix
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

    def refusal(self, address: str, coming: int, coming_in_all: int) -> UserMessage | None:
        """Return why an upload of an address is refused, or None. Deletes idle uploads to make room.

        coming, coming_in_all: bytes of the uploads under way, this one included: those of the address, and all.
        """
        with self._lock:
            self._tidy()
            own = self._kept.get(address, {})
            if not self._make_room(own, lambda: sum(own.values()) + coming <= KEPT_OF_ONE and len(own) < FILES_OF_ONE):
                return FULL
            return None if self._make_room(self._all(), lambda: self._has_room(coming_in_all)) else NO_ROOM

    def expire(self) -> None:
        """Delete files that have been unused for hours. Call it periodically."""
        with self._lock:
            self._tidy()
            for path in self._unused_for(HOURS * 3600, self._all()):
                self._delete(path)

    def _all(self) -> list[Path]:
        return [path for own in self._kept.values() for path in own]

    def _has_room(self, coming: int) -> bool:
        kept = sum(size for own in self._kept.values() for size in own.values())
        return kept + coming <= KEPT and shutil.disk_usage(self._folder).free >= SPARE + coming

    def _make_room(self, files: Iterable[Path], enough: Callable[[], bool]) -> bool:
        """Delete idle files, oldest first, until there is enough room; return whether there is."""
        for path in self._unused_for(IDLE, files):
            if enough():
                break
            self._delete(path)
        return enough()

    def _unused_for(self, seconds: float, files: Iterable[Path]) -> list[Path]:
        """Return the files that have been unused for this long, least recently used first."""
        before = self._clock() - seconds
        return [path for used, path in sorted((_last_use(path), path) for path in files) if used < before]

    def _delete(self, path: Path) -> None:
        shutil.rmtree(path.parent, ignore_errors=True)
        for own in self._kept.values():
            own.pop(path, None)

    def _tidy(self) -> None:
        """Drop records of files that were deleted after use."""
        for own in self._kept.values():
            for path in [path for path in own if not path.exists()]:
                del own[path]
        self._kept = {address: own for address, own in self._kept.items() if own}


def _last_use(path: Path) -> float:
    with suppress(OSError):  # deleted meanwhile
        return path.stat().st_mtime
    return 0.0
