"""Names of files that file systems accept."""

from unittest.mock import Mock

import pytest

from engine.voice import MAX_NAME, VOICE_FILE_SUFFIX
from studio.files.file_names import FIRST_WORDS, LONGEST, safe_file_name, short_stem, take_file_name
from studio.script.export import _card_name
from studio.voices.voice_archive import _unique_name


@pytest.mark.parametrize("name", ["Anna", "Zoë / 1", "あ" * 66, ""])
def test_short_stems_are_kept(name: str) -> None:
    assert short_stem(name) == name


@pytest.mark.parametrize("letter", ["a", "é", "あ", "😀"])
def test_long_stems_end_between_letters(letter: str) -> None:
    short = short_stem("x" + letter * 300)
    assert LONGEST - 4 < len(short.encode()) <= LONGEST
    assert short == "x" + letter * (len(short) - 1)
    assert not short_stem("x" * (LONGEST - 1) + " yes").endswith(" ")


def test_name_of_joiners_alone_is_replaced() -> None:
    assert safe_file_name("\u200d . \u200c") == "file"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("می‌خواهم؟", "Ann – می‌خواهم"),
        ("क्‍या।", "Ann – क्‍या"),
        ("👩‍👧 «Ja»:", "Ann – 👩‍👧 «Ja»"),
        ("a" * 38 + "บรัน", "Ann – " + "a" * 38 + "บ"),
        ("a" * 39 + "รั", "Ann – " + "a" * 39),
    ],
)
def test_names_of_takes_keep_joined_letters_and_marks(text: str, name: str) -> None:
    assert safe_file_name(take_file_name("Ann", text)) == name
    assert short_stem("x" * (LONGEST - 3) + "รั") == "x" * (LONGEST - 3)


def test_files_in_archives_have_names_that_can_be_unpacked() -> None:
    names: set[str] = set()
    found = [_unique_name("😀" * MAX_NAME, names) for _ in range(3)]
    assert len(set(found)) == 3
    assert all(len(name.encode()) <= 255 and name.endswith(VOICE_FILE_SUFFIX) for name in found)
    card = _card_name(Mock(position=9_999, speaker="😀" * MAX_NAME, text="😀" * FIRST_WORDS), "flac")
    assert len(card.encode()) <= 255
    assert card.startswith("10000 😀")
    assert card.endswith(".flac")
