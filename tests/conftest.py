"""A library in a real file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Studio, VoiceLibrary


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    with Studio.open(tmp_path / "voices.db") as opened:
        yield opened


@pytest.fixture
def library(studio: Studio) -> VoiceLibrary:
    return studio.voices
