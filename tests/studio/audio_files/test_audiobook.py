"""Chapters of audiobooks, in the two lists that players read."""

import io

import av
import numpy as np
import pytest

from engine.audio.output.encode import wav_bytes
from studio.audio_files.audiobook import Chapter, write_audiobook

RATE = 16_000


def written(chapters: list[Chapter]) -> bytes:
    file = io.BytesIO()
    source = io.BytesIO(wav_bytes(np.zeros(RATE, np.float32), RATE))
    write_audiobook(source, file, "A Book", chapters, None, {})
    return file.getvalue()


def titles(data: bytes) -> list[str]:
    with av.open(io.BytesIO(data)) as book:
        return [chapter["metadata"]["title"] for chapter in book.chapters()]


@pytest.mark.parametrize(
    ("chapters", "has_short_list"),
    [
        ([Chapter(0.0, "One"), Chapter(0.5, "Two")], True),
        ([Chapter(number / 300, f"Chapter {number}") for number in range(300)], False),
        ([Chapter(0.0, "章" * 85), Chapter(0.5, "é" * 127)], True),
        ([Chapter(0.0, "章" * 86), Chapter(0.5, "Two")], False),
    ],
)
def test_all_chapters_are_in_each_list(chapters: list[Chapter], has_short_list: bool) -> None:
    """Nero's list, which some players prefer, has room for 255 chapters with titles of 255 bytes."""
    data = written(chapters)
    assert (b"chpl" in data) is has_short_list
    assert titles(data) == [chapter.title for chapter in chapters]
