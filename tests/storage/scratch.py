"""Folders for tests that sync often and do not care where."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.paths import in_memory


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that goes afterwards; in memory where the system has room for files there."""
    with tempfile.TemporaryDirectory(prefix="reprise-test-", dir=in_memory()) as name:
        yield Path(name)
