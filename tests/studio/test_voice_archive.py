"""Voices as one file: what goes out comes in again, and what is not harmless stays out."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import InvalidInput
from studio.voices import voice_archive
from studio.voices.voice_archive import VoiceArchive
from tests.attack import voices
from tests.support.fake_engine import voice

FILE = voice("Anna", 0.2).to_bytes()


def archive(*entries: tuple[str | ZipInfo, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", compression) as file:
        for name, data in entries:
            file.writestr(name, data)
    return made.getvalue()


def opened(path: Path, data: bytes) -> list[tuple[str, bytes]]:
    path.write_bytes(data)
    return list(VoiceArchive(path, "mine.zip").voice_files())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "upload"


def test_a_single_file_is_itself(path: Path) -> None:
    for data in (FILE, b"", b"rubbish"):
        assert opened(path, data) == [("mine.zip", data)]


def test_folders_and_what_systems_add_are_no_trouble(path: Path) -> None:
    data = archive(
        ("voices/", b""),
        ("voices/Anna.VOICE", FILE),
        ("voices/.DS_Store", b"x"),
        ("__MACOSX/voices/._Anna.voice", b"x"),
        ("notes.txt", b"not read"),
    )
    assert opened(path, data) == [("Anna.VOICE", FILE), ("notes.txt", b"")]
    assert opened(path, archive()) == []


def with_password(data: bytes) -> bytes:
    """Both headers of the first entry say that it is encrypted."""
    marked = bytearray(data)
    marked[6] |= 1
    marked[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(marked)


@pytest.mark.parametrize(
    "data",
    [
        archive(("../Anna.voice", FILE)),
        archive(("voices/../../Anna.voice", FILE)),
        archive(("/etc/Anna.voice", FILE)),
        archive(("..\\Anna.voice", FILE)),
        archive(("C:Anna.voice", FILE)),
        archive(("Anna.voice", FILE), compression=ZIP_BZIP2),
        with_password(archive(("Anna.voice", FILE))),
    ],
)
def test_paths_out_passwords_and_rare_ways_of_packing_are_refused(path: Path, data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"“mine\.zip” contains paths or passwords"):
        opened(path, data)


def test_bombs_do_not_go_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = bytes(1 << 20)
    monkeypatch.setattr(voice_archive, "MAX_BYTES", 4 << 20)
    monkeypatch.setattr(voice_archive, "MAX_FILES", 10)
    with pytest.raises(InvalidInput, match="more than 4 MB"):
        opened(path, archive(*((f"{number}.voice", zeros) for number in range(5))))
    with pytest.raises(InvalidInput, match="more than 10 files"):
        opened(path, archive(*((f"{number}.txt", b"") for number in range(11))))
    monkeypatch.setattr(voice_archive, "MAX_VOICE_BYTES", 1 << 19)
    with pytest.raises(InvalidInput, match="more than 4 MB"):
        opened(path, archive(("large.voice", zeros)))
    assert opened(path, archive(("large.txt", zeros))) == [("large.txt", b"")], "what is no voice is not even unpacked"


def test_a_size_that_is_a_lie_brings_no_more_than_it_says(path: Path) -> None:
    data = bytearray(archive(("Anna.voice", bytes(1 << 20))))
    for place, at in ((0, 22), (data.index(b"PK\x01\x02"), 24)):
        struct.pack_into("<L", data, place + at, 100)
    with pytest.raises(InvalidInput, match="damaged"):
        opened(path, bytes(data))


def test_what_comes_out_is_counted_block_by_block(path: Path) -> None:
    """Sizes that are a lie do not get the whole entry unpacked, as `ZipFile.read` does before it cuts it."""
    path.write_bytes(voices.crafted()["a size that is a lie"]())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="damaged"):
            list(VoiceArchive(path, "mine.zip").voice_files())
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_less_than_was_declared_is_damage_also_with_the_right_checksum(path: Path) -> None:
    with pytest.raises(InvalidInput, match="damaged"):
        opened(path, voices.lying(archive(("Anna.voice", b"123")), 5))


@pytest.mark.parametrize("times", [2, 900])
def test_entries_that_are_the_same_bytes_are_refused(path: Path, times: int) -> None:
    with pytest.raises(InvalidInput, match="contains paths or passwords"):
        opened(path, voices.listed_often(archive(("Anna.voice", FILE)), times))


def test_names_are_cut_and_hold_nothing_that_cannot_be_shown(path: Path) -> None:
    data = archive(("a/\x1b[2J\u202e.voice", b"x"), ("x" * 60_000 + ".voice", b"y"))
    assert [name for name, _ in opened(path, data)] == [
        "\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}.voice",
        "x" * 200 + "…",
    ]


def test_a_single_file_is_not_read_beyond_what_a_voice_may_have(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_archive, "MAX_FILE_BYTES", 10)
    assert opened(path, b"x" * 100) == [("mine.zip", b"x" * 11)]


def test_spoiled_uploads_are_voices_or_a_sentence() -> None:
    bombs = (
        "nothing",
        "a size beyond all",
        "packed by lzma",
        "a header of brackets",
        "a header of lists",
        "20,000 names",
    )
    for name in bombs:
        voices.run(voices.crafted()[name]())
    for case in voices.spoiled_uploads(seed=0, count=300):
        voices.run(case)


def test_the_list_of_files_is_measured_before_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive(*((f"{number}.txt", b"") for number in range(100)))
    monkeypatch.setattr(voice_archive, "MAX_DIRECTORY_BYTES", 1_000)
    monkeypatch.setattr(zipfile.ZipFile, "__init__", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(InvalidInput, match=r"files in “mine\.zip”"):
        opened(path, data)
    larger = data[:-22] + b"PK\x06\x07" + bytes(16) + data[-22:]
    with pytest.raises(InvalidInput, match=r"files in “mine\.zip”"):
        opened(path, larger)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_is_wrong_with_an_archive_is_a_sentence(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(archive(("Anna.voice", FILE[:300]), ("Zoë.voice", b"x")))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(4, len(whole)))])
    for damaged in (bytes(whole), cut, cut + bytes(whole)):
        try:
            found = opened(tmp_path / "upload", damaged)
        except InvalidInput:
            continue
        assert sum(len(inner) for _, inner in found) <= 400
