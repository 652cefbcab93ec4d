"""Folders for tests that sync often and do not care where."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.paths import MEMORY


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that goes afterwards; in memory where the system has room for files there."""
    place = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="reprise-test-", dir=place) as name:
        yield Path(name)
