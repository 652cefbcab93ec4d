"""Temporary folders for tests that sync often."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.paths import in_memory


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder, in memory where the system has room there."""
    with tempfile.TemporaryDirectory(prefix="reprise-test-", dir=in_memory()) as name:
        yield Path(name)
