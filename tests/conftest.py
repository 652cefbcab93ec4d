"""A library in a real file; property tests without deadlines, since machines are busy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from storage import Storage, VoiceLibrary

if TYPE_CHECKING:
    from engine import Engine

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


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

    engine = Engine.load("bundled", "cpu")
    yield engine
    engine.close()
