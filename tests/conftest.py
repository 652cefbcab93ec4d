"""A library in a real file; property tests without deadlines, since machines are busy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from storage import Storage, VoiceLibrary

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage.open(tmp_path / "voices.db") as opened:
        yield opened


@pytest.fixture
def library(storage: Storage) -> VoiceLibrary:
    return storage.voices
