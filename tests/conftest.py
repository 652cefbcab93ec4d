"""A library in a real file; folders in memory; property tests without deadlines, since machines are busy."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from storage import Storage, VoiceLibrary
from tests.paths import ROOT, in_memory

if TYPE_CHECKING:
    from engine import Engine

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

if memory := in_memory(room=4 << 30):
    # Databases sync with every commit, which on a disk takes longer than the tests.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first: one that began last would keep a single core busy while the others rest.

    The others are mixed, always in the same way, so that tests that wait run beside tests that compute.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, zlib.crc32(str(item.path.relative_to(ROOT)).encode())))


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage.open(tmp_path / "voices.db") as opened:
        yield opened


@pytest.fixture
def library(storage: Storage) -> VoiceLibrary:
    return storage.voices


@pytest.fixture(scope="session")
def bundled_engine() -> Iterator[Engine]:
    """The bundled model, loaded once for all tests."""
    from engine import Engine

    engine = Engine.load("bundled", "cpu", slots=2)
    yield engine
    engine.close()
