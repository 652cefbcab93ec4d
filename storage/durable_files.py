"""Changes of local files that survive a power cut."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

UNFINISHED = ".new"  # suffix of a file while it is written


def write(path: Path, data: bytes) -> None:
    """Write a file, which is whole and on the disk once it has its name. Its folders are created. Raises OSError.

    If this raises or the process ends, a file with the suffix `UNFINISHED` may be left.
    """
    make_folder(path.parent)
    unfinished = path.with_name(path.name + UNFINISHED)
    with unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder and its parents if they are missing. mode: of the folder. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    with contextlib.suppress(OSError):  # where folders cannot be opened or synced, as on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
