"""Sample voices: installed at the first start, usable by all owners, and read-only."""

import json
import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.errors import InvalidInput, InvalidVoiceFile
from engine.voice import VOICE_FILE_SUFFIX, Voice
from storage import Storage, VoiceLibrary
from storage.errors import NameTaken, VoiceNotFound, VoiceProtected
from storage.repositories.voices.shared_voices import SampleVoice
from storage.voices.sample_voices import INDEX, install_samples, read_sample_voices
from tests.storage.making import count_rows, not_reencoded, open_voices, recoded, run_concurrently, voice

SIX = ["Adam", "Ben", "Clara", "Daniel", "Emma", "Flora"]
TABLES = ("voices", "voice_references", "reference_codes")


def names(library: VoiceLibrary, **which: str) -> list[str]:
    return [record.name for record in library.list(**which)]


def test_first_start_installs_six_samples_with_codes(library: VoiceLibrary) -> None:
    install_samples(library)
    records = library.list()
    assert [record.name for record in records] == SIX
    for record, sample in zip(records, read_sample_voices(), strict=True):
        assert record.shared
        assert record.demo == sample.demo != ""
        assert library.ready(record.id, sample.voice.codec_fingerprint, not_reencoded) == sample.voice


def test_second_start_writes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another connection locks the database, so a write would fail."""
    path = tmp_path / "voices.db"
    with open_voices(path) as library:
        install_samples(library)
        before = library.list()
    with open_voices(path, busy_timeout=0.01) as library, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert library.share(read_sample_voices()) is False
        install_samples(library)
        assert library.list() == before
        third = sqlite3.connect(path, timeout=0.01)
        with closing(third), pytest.raises(sqlite3.OperationalError, match="locked"):
            third.execute("BEGIN IMMEDIATE")
    assert caplog.records == []


def test_new_version_replaces_the_old_one(library: VoiceLibrary, url: str) -> None:
    same, changed, gone = (SampleVoice(voice(name), f"I am {name}.") for name in ("Same", "Changed", "Gone"))
    mine = library.add(voice("Changed", seed=5))
    assert library.share([same, changed, gone]) is True
    kept = library.find("Same")
    library.ready(kept.id, "codec-b", lambda original: recoded(original, "codec-b"))

    other, new = replace(changed, demo="Listen."), SampleVoice(voice("New"), "")
    assert library.share([new, other, same]) is True
    assert names(library, owner="somebody") == ["Changed", "New", "Same"]
    assert library.find("Same") == kept
    library.ready(kept.id, "codec-b", not_reencoded)
    assert library.find("Changed", owner="somebody").demo == "Listen."
    assert library.find("Changed") == mine

    assert library.share([]) is True
    assert library.list() == [mine]
    assert [count_rows(url, table) for table in TABLES] == [1, 2, 2]


def test_sample_id_depends_on_all_its_content() -> None:
    sample = SampleVoice(voice(), "Hello.")
    others = [
        SampleVoice(voice(seed=1), "Hello."),
        SampleVoice(voice(fingerprint="codec-b"), "Hello."),
        SampleVoice(voice(), "Ho."),
    ]
    assert len({sample.id, *(other.id for other in others)}) == 4
    assert SampleVoice(voice(), "Hello.").id == sample.id


def test_invalid_set_leaves_the_old_one(library: VoiceLibrary) -> None:
    library.share([SampleVoice(voice("Ada"), "")])
    before = library.list()
    with pytest.raises(NameTaken):
        library.share([SampleVoice(voice("Ben"), ""), SampleVoice(voice("ben", seed=1), "")])
    assert library.list() == before
    with pytest.raises(InvalidInput, match="demo sentence"):
        SampleVoice(voice(), "x" * 2001)


def test_concurrent_starts_install_samples_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    storages = [Storage.open(url) for _ in range(4)]
    run_concurrently([partial(install_samples, storage.voices) for storage in storages])
    for storage in storages:
        assert names(storage.voices) == SIX
        storage.close()
    assert [count_rows(url, table) for table in TABLES] == [6, 6, 6]
    assert caplog.records == []


def test_owners_see_samples_after_their_own_voices(library: VoiceLibrary) -> None:
    install_samples(library)
    hers, his = library.add(voice("Zoe"), owner="her"), library.add(voice("Max"), owner="him")
    assert names(library, owner="her") == ["Zoe", *SIX]
    assert names(library, owner="him") == ["Max", *SIX]
    assert [record.shared for record in library.list(owner="her")] == [False] + 6 * [True]
    assert library.list(owner="her")[1:] == library.list(owner="him")[1:]
    assert names(library, owner="her", search="WOMAN") == ["Clara", "Emma", "Flora"]
    with pytest.raises(VoiceNotFound):
        library.get(his.id, owner="her")
    library.delete(hers.id, owner="her")
    with pytest.raises(VoiceNotFound):
        library.get(hers.id, owner="her")
    assert names(library, owner="her") == SIX


def test_samples_cannot_be_changed_nor_voices_without_an_owner(library: VoiceLibrary) -> None:
    install_samples(library)
    before = library.list(owner="her")
    adam = before[0].id
    for change in (
        lambda: library.rename(adam, "Mine", owner="her"),
        lambda: library.update(adam, description="Mine.", owner="her"),
        lambda: library.delete(adam, owner="her"),
        lambda: library.owned(adam, owner="her"),
    ):
        with pytest.raises(VoiceProtected, match=r"^“Adam” is a sample voice .* cannot be renamed, changed or deleted"):
            change()
        assert library.list(owner="her") == before
    for act in (
        lambda: library.add(voice(), owner=""),
        lambda: library.delete(library.find("Adam").id, owner=""),
        lambda: library.empty_trash(owner=""),
    ):
        with pytest.raises(InvalidInput, match="owner"):
            act()
    assert names(library) == SIX


def test_own_voice_takes_precedence_over_sample_of_same_name(library: VoiceLibrary) -> None:
    install_samples(library)
    sample = library.find("adam", owner="her")
    mine = library.import_voice(library.export_voice(sample.id, owner="her"), owner="her")
    assert library.find("ADAM", owner="her") == mine
    assert not mine.shared
    assert library.owned(mine.id, owner="her") == mine
    assert library.find("Adam", owner="him") == sample
    assert names(library, owner="her") == ["Adam", *SIX]
    library.delete(mine.id, owner="her")
    assert library.find("Adam", owner="her") == sample


def test_reencoded_sample_is_shared_by_all_owners(library: VoiceLibrary) -> None:
    install_samples(library)
    adam = library.find("Adam")
    made = library.ready(adam.id, "codec-b", lambda original: recoded(original, "codec-b"), owner="her")
    assert library.ready(adam.id, "codec-b", not_reencoded, owner="him") == made
    assert library.find("Adam") == adam


def write_samples(folder: Path, index: str) -> Path:
    """Write a folder with one sample and the given index."""
    folder.mkdir()
    (folder / "ada").with_suffix(VOICE_FILE_SUFFIX).write_bytes(voice().to_bytes())
    (folder / INDEX).write_text(index, "utf-8")
    return folder


def entry(file: object = "ada.voice", demo: object = "Hello.") -> str:
    return json.dumps({"voices": [{"file": file, "demo": demo}]})


@pytest.mark.parametrize(
    "index", ["", "[]", "{}", '{"voices": 3}', '{"voices": [{}]}', entry(file=1), entry(demo=None)]
)
def test_invalid_index_is_rejected(tmp_path: Path, index: str) -> None:
    with pytest.raises(InvalidVoiceFile, match="not an index of sample voices"):
        read_sample_voices(write_samples(tmp_path / "samples", index))


@pytest.mark.parametrize("index", ["", entry("gone.voice"), entry(INDEX), entry(demo="x" * 2001)])
def test_unusable_samples_log_a_warning(
    library: VoiceLibrary, tmp_path: Path, index: str, caplog: pytest.LogCaptureFixture
) -> None:
    install_samples(library, write_samples(tmp_path / "samples", index))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "could not be put into the library" in caplog.text
    assert library.list() == []


def test_locked_library_logs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "voices.db"
    with open_voices(path, busy_timeout=0.01) as library, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        install_samples(library, write_samples(tmp_path / "samples", entry()))
        assert "locked" in caplog.text
        assert library.list() == []
        other.rollback()
        install_samples(library, tmp_path / "samples")
        assert names(library) == ["Ada"]


def test_sample_is_read_from_its_file(tmp_path: Path) -> None:
    (sample,) = read_sample_voices(write_samples(tmp_path / "samples", entry(demo="Ho.")))
    assert sample == SampleVoice(Voice.from_bytes((tmp_path / "samples" / "ada.voice").read_bytes()), "Ho.")
