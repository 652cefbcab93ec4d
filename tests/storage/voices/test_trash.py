"""The trash: restored voices lose nothing, and purged voices leave nothing."""

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.voice import MAX_NAME, Voice
from storage import Storage, VoiceLibrary
from storage.database import Database
from storage.errors import NameTaken, VoiceNotFound, VoiceProtected
from storage.repositories.voices import voices
from storage.repositories.voices.shared_voices import SampleVoice
from storage.repositories.voices.voices import VoiceRecord
from storage.voices.library import TRASH_RETENTION
from tests.storage.making import count_rows, not_reencoded, open_voices, recoded, voice
from tests.storage.speaking import Clock

TABLES = ("voices", "voice_references", "reference_codes")


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 12, tzinfo=UTC))


@pytest.fixture
def storage(database: Database, clock: Clock) -> Storage:
    return Storage(database, clock)


@pytest.fixture
def library(storage: Storage) -> VoiceLibrary:
    return storage.voices


def tagged(name: str = "Ada") -> Voice:
    return replace(voice(name), tags=("warm", "story"), description="Low.", language="fr")


def test_restored_voice_is_unchanged(library: VoiceLibrary) -> None:
    record = library.add(tagged())
    codes = library.ready(record.id, "codec-b", lambda kept: replace(recoded(kept, "codec-b"), tags=kept.tags))
    gone = library.trash(record.id)
    assert gone == record
    assert library.restore(record.id) == record
    assert library.list() == [record]
    assert library.load(record.id) == tagged()
    assert library.ready(record.id, "codec-b", not_reencoded).references == codes.references


def test_trashed_voice_is_not_found(library: VoiceLibrary, storage: Storage) -> None:
    record = library.add(tagged())
    library.trash(record.id)
    assert library.list() == library.list(search="ada") == []
    for act in (
        library.get,
        library.load,
        library.delete,
        library.trash,
        library.export_voice,
        library.duplicate,
        lambda voice_id: library.rename(voice_id, "Bea"),
        lambda voice_id: library.ready(voice_id, "codec-a", lambda kept: kept),
    ):
        with pytest.raises(VoiceNotFound):
            act(record.id)
    with pytest.raises(VoiceNotFound):
        library.find("Ada")
    assert storage.storage_use().voices == 0
    (trashed,) = library.trashed()
    assert replace(trashed, trashed=None) == record


def test_list_and_trash_are_of_one_moment(library: VoiceLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    saved, find = library.add(voice()), voices.records
    library.trash(saved.id)

    def before_it_is_restored(**which: Any) -> list[VoiceRecord]:
        found = find(**which)
        monkeypatch.undo()
        library.restore(saved.id)
        return found

    monkeypatch.setattr(voices, "records", before_it_is_restored)
    assert [len(each) for each in library.list_with_trash()] == [0, 1]
    assert library.list_with_trash() == (library.list(), library.trashed())


def test_restored_voice_gets_a_free_name(library: VoiceLibrary) -> None:
    first = library.add(voice("Ada"))
    library.trash(first.id)
    second = library.add(voice("ADA", seed=1))
    library.trash(second.id)
    third = library.rename(library.add(voice("Bea")).id, "ada")
    back = library.restore(first.id)
    assert (back.name, library.restore(second.id).name) == ("Ada 2", "ADA 3")
    assert back.updated > first.updated, "another name is a change"
    assert library.find("ada") == third
    assert library.load(first.id).references == voice("Ada").references
    assert library.list(search="2") == [back]


def test_only_the_owner_can_trash_and_restore_a_voice(library: VoiceLibrary) -> None:
    record = library.add(voice(), owner="her")
    with pytest.raises(VoiceNotFound):
        library.trash(record.id, owner="him")
    library.trash(record.id, owner="her")
    assert library.trashed(owner="him") == []
    assert library.empty_trash(owner="him") == 0
    for voice_id in (record.id, "nonsense"):
        with pytest.raises(VoiceNotFound):
            library.restore(voice_id, owner="him")
    assert library.restore(record.id, owner="her") == record
    with pytest.raises(VoiceNotFound):
        library.restore(record.id, owner="her")


def test_samples_cannot_be_trashed(library: VoiceLibrary) -> None:
    library.share([SampleVoice(voice("Ben"), "I am Ben.")])
    with pytest.raises(VoiceProtected):
        library.trash(library.find("Ben").id)


def test_trashed_voice_is_purged_after_its_retention(library: VoiceLibrary, clock: Clock, url: str) -> None:
    early, late, kept = (library.add(voice(name)) for name in ("Early", "Late", "Kept"))
    library.trash(early.id)
    clock.now += timedelta(minutes=1)
    library.trash(late.id)
    assert [each.name for each in library.trashed()] == ["Late", "Early"]
    clock.now += TRASH_RETENTION - timedelta(seconds=30)
    assert [each.name for each in library.trashed()] == ["Late"]
    assert library.purge_expired() == 1
    assert library.purge_expired() == 0
    assert [count_rows(url, table) for table in TABLES] == [2, 4, 4]
    with pytest.raises(VoiceNotFound):
        library.restore(early.id)
    assert library.empty_trash() == 1
    assert [count_rows(url, table) for table in TABLES] == [1, 2, 2]
    assert library.list() == [kept]


def test_trashed_voice_can_be_restored_after_reopening(url: str, clock: Clock) -> None:
    with Storage.open(url, clock=clock) as storage:
        record = storage.voices.add(voice())
        storage.voices.trash(record.id)
    with Storage.open(url, clock=clock) as storage:
        assert storage.voices.purge_expired() == 0
        assert storage.voices.restore(record.id) == record


def test_forget_empties_the_trash(storage: Storage, url: str) -> None:
    storage.voices.trash(storage.voices.add(voice(), owner="her").id, owner="her")
    storage.delete_owner("her")
    assert [count_rows(url, table) for table in TABLES] == [0, 0, 0]


def test_purged_bytes_are_overwritten(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "voices.sqlite"
    clip = voice().references[0].clip
    with Storage.open(path, clock=clock) as storage:
        record = storage.voices.add(voice())
        storage.voices.trash(record.id)
        clock.now += TRASH_RETENTION + timedelta(seconds=1)
        with sqlite3.connect(path) as look:
            look.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        look.close()
        assert clip[60:160] in path.read_bytes()
        storage.voices.purge_expired()
        written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert clip[60:160] not in written


def test_copy_is_independent_of_the_original(library: VoiceLibrary) -> None:
    record = library.add(tagged())
    copy = library.duplicate(record.id)
    assert (copy.name, copy.tags, copy.consent) == ("Ada 2", record.tags, record.consent)
    assert library.load(copy.id) == replace(tagged(), name="Ada 2")
    library.delete(record.id)
    assert library.load(copy.id).references == tagged().references
    with pytest.raises(VoiceNotFound):
        library.duplicate(copy.id, owner="him")


def test_copy_of_a_sample_belongs_to_the_owner(library: VoiceLibrary) -> None:
    library.share([SampleVoice(voice("Ben"), "I am Ben.")])
    sample = library.find("Ben")
    copy = library.duplicate(sample.id, owner="her")
    assert (copy.name, copy.owner, copy.demo, copy.shared) == ("Ben", "her", "I am Ben.", False)
    assert library.rename(copy.id, "Mine", owner="her").name == "Mine"
    assert library.get(sample.id) == sample


def test_copies_get_free_valid_names(tmp_path: Path) -> None:
    owners = map(str, count())
    with open_voices(tmp_path / "voices.db") as opened:

        @settings(deadline=None, max_examples=12)
        @given(st.lists(st.sampled_from(["a" * MAX_NAME, "A" * MAX_NAME, "x", "X 2", "x  3"]), min_size=1, max_size=6))
        def check(names: list[str]) -> None:
            owner = next(owners)
            for name in names:
                try:
                    record = opened.add(voice(name, references=1), owner=owner)
                except NameTaken:
                    record = opened.find(name, owner=owner)
                copy = opened.duplicate(record.id, owner=owner)
                assert len(copy.name) <= MAX_NAME
            keys = [record.name.casefold() for record in opened.list(owner=owner)]
            assert len(keys) == len(set(keys)) >= len(names)

        check()


# --- tags


def test_tags_are_stored_and_searched(library: VoiceLibrary) -> None:
    record = library.add(tagged())
    assert record.tags == ("warm", "story")
    changed = library.update(record.id, tags=[" #Grand   Père ", "grand père", "", "Story"])
    assert changed.tags == ("Grand Père", "Story")
    assert library.load(record.id).tags == changed.tags
    for search, hits in (("pere", 1), ("warm", 0), ("fr", 1), ("ada story FR", 1), ("de", 0)):
        assert len(library.list(search=search)) == hits, search
    assert library.update(record.id, tags=()).tags == ()
    assert library.update(record.id, language="de").tags == ()
    assert library.list(search="de") != []
