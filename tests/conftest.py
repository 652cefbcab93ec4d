"""A library in a real file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Storage, VoiceLibrary


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Storage]:
    with Storage.open(tmp_path / "voices.db") as opened:
        yield opened


@pytest.fixture
def library(studio: Storage) -> VoiceLibrary:
    return studio.voices
