"""Archives of voices: reading, bounds, and rejection of hostile archives."""

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
from tests.attack.inputs import voices
from tests.support.archives import read_archive
from tests.support.fake_engine import voice

FILE = voice("Anna", 0.2).to_bytes()


def archive(*entries: tuple[str | ZipInfo, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", compression) as file:
        for name, data in entries:
            file.writestr(name, data)
    return made.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "upload"


def test_single_file_is_returned_unchanged(path: Path) -> None:
    for data in (FILE, b"", b"rubbish"):
        assert read_archive(path, data) == [("mine.zip", data)]


def test_folders_and_system_files_are_skipped(path: Path) -> None:
    data = archive(
        ("voices/", b""),
        ("voices/Anna.VOICE", FILE),
        ("voices/.DS_Store", b"x"),
        ("__MACOSX/voices/._Anna.voice", b"x"),
        ("notes.txt", b"not read"),
    )
    assert read_archive(path, data) == [("Anna.VOICE", FILE), ("notes.txt", b"")]
    assert read_archive(path, archive()) == []


def with_password(data: bytes) -> bytes:
    """Set the encryption flag in both headers of the first entry."""
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
def test_unsafe_paths_passwords_and_rare_compression_are_rejected(path: Path, data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"“mine\.zip” contains paths or passwords"):
        read_archive(path, data)


def test_zip_bombs_are_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = bytes(1 << 20)
    monkeypatch.setattr(voice_archive, "MAX_BYTES", 4 << 20)
    monkeypatch.setattr(voice_archive, "MAX_FILES", 10)
    with pytest.raises(InvalidInput, match="more than 4 MB"):
        read_archive(path, archive(*((f"{number}.voice", zeros) for number in range(5))))
    with pytest.raises(InvalidInput, match="more than 10 files"):
        read_archive(path, archive(*((f"{number}.txt", b"") for number in range(11))))
    monkeypatch.setattr(voice_archive, "MAX_VOICE_BYTES", 1 << 19)
    with pytest.raises(InvalidInput, match="more than 4 MB"):
        read_archive(path, archive(("large.voice", zeros)))
    assert read_archive(path, archive(("large.txt", zeros))) == [("large.txt", b"")], "other files are not unpacked"


def test_false_size_is_damage(path: Path) -> None:
    data = bytearray(archive(("Anna.voice", bytes(1 << 20))))
    for place, at in ((0, 22), (data.index(b"PK\x01\x02"), 24)):
        struct.pack_into("<L", data, place + at, 100)
    with pytest.raises(InvalidInput, match="damaged"):
        read_archive(path, bytes(data))


def test_unpacked_bytes_are_bounded_by_block(path: Path) -> None:
    """An entry with a false size is not unpacked whole, unlike in `ZipFile.read`, which truncates afterwards."""
    path.write_bytes(voices.crafted()["a size that is a lie"]())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="damaged"):
            list(VoiceArchive(path, "mine.zip").voice_files())
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_short_entry_with_valid_checksum_is_damage(path: Path) -> None:
    with pytest.raises(InvalidInput, match="damaged"):
        read_archive(path, voices.with_false_size(archive(("Anna.voice", b"123")), 5))


@pytest.mark.parametrize("times", [2, 900])
def test_overlapping_entries_are_rejected(path: Path, times: int) -> None:
    with pytest.raises(InvalidInput, match="contains paths or passwords"):
        read_archive(path, voices.with_repeated_entry(archive(("Anna.voice", FILE)), times))


def test_names_are_shortened_and_cleaned(path: Path) -> None:
    data = archive(("a/\x1b[2J\u202e.voice", b"x"), ("x" * 60_000 + ".voice", b"y"))
    assert [name for name, _ in read_archive(path, data)] == [
        "\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}.voice",
        "x" * 200 + "…",
    ]


def test_single_file_is_read_up_to_the_voice_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_archive, "MAX_FILE_BYTES", 10)
    assert read_archive(path, b"x" * 100) == [("mine.zip", b"x" * 11)]


def test_corrupted_uploads_load_or_raise_an_error() -> None:
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
    for case in voices.damaged_uploads(seed=0, count=120):
        voices.run(case)


def test_file_list_size_is_checked_before_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive(*((f"{number}.txt", b"") for number in range(100)))
    monkeypatch.setattr(voice_archive, "MAX_DIRECTORY_BYTES", 1_000)
    monkeypatch.setattr(zipfile.ZipFile, "__init__", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(InvalidInput, match=r"files in “mine\.zip”"):
        read_archive(path, data)
    larger = data[:-22] + b"PK\x06\x07" + bytes(16) + data[-22:]
    with pytest.raises(InvalidInput, match=r"files in “mine\.zip”"):
        read_archive(path, larger)


@pytest.mark.parametrize("large", [False, True])
def test_archive_on_the_users_own_machine_has_no_limits(
    path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """large: with the fields that an archive of more than 4 GB has."""
    with monkeypatch.context() as patch:
        if large:
            patch.setattr(zipfile, "ZIP64_LIMIT", 0)
        data = archive(*((f"{number}.voice", FILE) for number in range(6)), ("notes.txt", b"-"))
    path.write_bytes(data)
    for name, limit in (("FILES", 5), ("BYTES", 5 * len(FILE)), ("DIRECTORY_BYTES", 300)):
        with monkeypatch.context() as patch:
            patch.setattr(voice_archive, f"MAX_{name}", limit)
            with pytest.raises(InvalidInput):
                list(VoiceArchive(path, "mine.zip").voice_files())
            assert len(list(VoiceArchive(path, "mine.zip", own=True).voice_files())) == 7
    monkeypatch.setattr(voice_archive, "MAX_VOICE_BYTES", len(FILE) - 1)
    with pytest.raises(InvalidInput, match="more than 256 MB"):
        list(VoiceArchive(path, "mine.zip", own=True).voice_files())
    monkeypatch.setattr(voice_archive, "MAX_OWN_DIRECTORY_BYTES", 300)
    with pytest.raises(InvalidInput, match="more than 500 files"):
        list(VoiceArchive(path, "mine.zip", own=True).voice_files())


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_corrupted_archives_load_or_raise_an_error(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(archive(("Anna.voice", FILE[:300]), ("Zoë.voice", b"x")))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(4, len(whole)))])
    for damaged in (bytes(whole), cut, cut + bytes(whole)):
        for own in (False, True):
            try:
                found = read_archive(tmp_path / "upload", damaged, own=own)
            except InvalidInput:
                continue
            assert sum(len(inner) for _, inner in found) <= 400
