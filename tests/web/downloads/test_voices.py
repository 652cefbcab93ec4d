"""Export of an owner's voices as one archive that can be imported again."""

import io
import tempfile
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from engine.errors import InvalidCodes
from engine.voice import Voice
from storage import VoiceLibrary
from storage.errors import VoiceNotFound
from storage.repositories.voices.shared_voices import SampleVoice
from studio.voices.voice_archive import LEFT_OUT, write_voice_archive
from tests.support.archives import read_archive
from tests.support.fake_engine import voice
from web.downloads.links import DownloadStream
from web.downloads.voices import ARCHIVE_NAME, archive_producer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "upload"


def test_archive_round_trips_all_voices(library: VoiceLibrary, path: Path) -> None:
    library.share([SampleVoice(voice("Sample"), "I am one.")])
    library.add(voice("Another's"), owner="other")
    names = ["Anna", "a/b", "a:b", "ÄÖ " + "x" * 70, "…", "."]
    for name in names:
        library.add(voice(name, 0.2))
    made = archive_producer(library)("local", "all")
    assert isinstance(made, DownloadStream)
    with made.file as file:
        file.seek(0)
        data = file.read()
    assert made.name == ARCHIVE_NAME
    with ZipFile(io.BytesIO(data)) as packed:
        files = packed.namelist()
    assert len({name.casefold() for name in files}) == len(names)
    assert not any(set("/\\:") & set(name) for name in files)
    back = [Voice.from_bytes(inner).name for _, inner in read_archive(path, data)]
    assert sorted(back) == sorted(names)


@pytest.mark.parametrize(("saved", "stored"), [(1970, 1980), (2026, 2026), (2108, 2107)])
def test_voices_saved_while_the_clock_was_wrong_are_archived(library: VoiceLibrary, saved: int, stored: int) -> None:
    """A machine without a battery for its clock begins in 1970; a .zip has times from 1980 to 2107."""
    record = library.add(voice("Anna", 0.2))
    file = io.BytesIO()
    write_voice_archive(file, library, [replace(record, updated=record.updated.replace(year=saved))])
    with ZipFile(file) as packed:
        (entry,) = packed.infolist()
    assert entry.date_time[0] == stored
    assert Voice.from_bytes(ZipFile(file).read(entry)).name == "Anna"


def test_archive_without_own_voices_is_refused(library: VoiceLibrary) -> None:
    library.share([SampleVoice(voice("Sample"), "I am one.")])
    record = library.add(voice("Anna"), owner="other")
    for asked in ("all", record.id, ""):
        with pytest.raises(VoiceNotFound):
            archive_producer(library)("local", asked)
    with pytest.raises(VoiceNotFound):
        archive_producer(library)("other", record.id)


def test_archive_that_cannot_be_written_leaves_no_open_file(
    library: VoiceLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(voice_id: str, *, owner: str) -> bytes:
        raise OSError("No space left on device")

    library.add(voice("Anna"))
    monkeypatch.setattr(library, "export_voice", full)
    with tempfile.TemporaryFile() as file:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: file)
        with pytest.raises(OSError, match="space"):
            archive_producer(library)("local", "all")
        assert file.closed


def test_archive_lists_unreadable_voices(library: VoiceLibrary, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library.add(voice("Anna"))
    broken, gone = library.add(voice("Ben")), library.add(voice("Carl"))
    export = library.export_voice

    def damaged(voice_id: str, *, owner: str) -> bytes:
        if voice_id == gone.id:
            raise VoiceNotFound("gone")
        if voice_id == broken.id:
            raise InvalidCodes("These codes are damaged.")
        return export(voice_id, owner=owner)

    monkeypatch.setattr(library, "export_voice", damaged)
    made = archive_producer(library)("local", "all")
    assert isinstance(made, DownloadStream)
    with made.file as file, ZipFile(file) as packed:
        assert packed.namelist() == ["Anna.voice", LEFT_OUT]
        assert packed.read(LEFT_OUT).decode() == "Ben: These codes are damaged."
