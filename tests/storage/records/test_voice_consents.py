"""Recorded consents: isolated by owner, renamed, and deleted without remaining bytes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.errors import InvalidInput
from storage import Storage
from storage.database import Database
from storage.errors import ConsentNotFound

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOUND = b"a recording of someone who agrees" * 300


@pytest.fixture
def storage(database: Database) -> Storage:
    times = (NOW + timedelta(seconds=step) for step in range(1_000))
    return Storage(database, lambda: next(times))


def test_consents_are_isolated_by_owner(storage: Storage) -> None:
    first = storage.consents.add(" Anna  Gray ", "en-US", SOUND, owner="ann")
    second = storage.consents.add("Anna Gray", "de", SOUND, owner="ann")
    assert (first.name, first.language, first.created) == ("Anna Gray", "en-US", NOW)
    assert storage.consents.list(owner="ann") == [second, first]
    assert storage.consents.get(first.id, owner="ann") == first
    assert storage.consents.recording(first.id, owner="ann") == SOUND
    assert storage.consents.list(owner="bob") == []
    for lost in (
        lambda: storage.consents.get(first.id, owner="bob"),
        lambda: storage.consents.recording(first.id, owner="bob"),
        lambda: storage.consents.rename(first.id, "Ben", owner="bob"),
        lambda: storage.consents.delete(first.id, owner="bob"),
        lambda: storage.consents.get("Anna Gray", owner="ann"),
    ):
        with pytest.raises(ConsentNotFound, match="no such consent"):
            lost()


def test_consent_is_renamed_and_deleted(storage: Storage) -> None:
    record = storage.consents.add("Anna", "en", SOUND)
    assert storage.consents.rename(record.id, "Anna Gray").name == storage.consents.get(record.id).name == "Anna Gray"
    assert storage.owner_counts().storage.voices == len(SOUND)
    storage.consents.delete(record.id)
    assert storage.consents.list() == []
    assert storage.owner_counts().empty


def test_forget_deletes_the_owners_consents(storage: Storage) -> None:
    storage.consents.add("Anna", "en", SOUND, owner="ann")
    kept = storage.consents.add("Ben", "en", SOUND, owner="bob")
    assert not storage.owner_counts(owner="ann").empty
    storage.delete_owner("ann")
    assert storage.owner_counts(owner="ann").empty
    assert storage.consents.list(owner="bob") == [kept]
    assert storage.consents.recording(kept.id, owner="bob") == SOUND


def test_deleted_recording_leaves_no_bytes(tmp_path: Path) -> None:
    with Storage.open(tmp_path / "voices.db") as storage:
        record = storage.consents.add("Anna Gray-Marker", "en", SOUND)
        held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"Gray-Marker" in held
        assert SOUND[:33] in held
        storage.consents.delete(record.id)
        held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"Gray-Marker" not in held
        assert SOUND[:33] not in held


def test_invalid_consent_is_rejected(storage: Storage) -> None:
    with pytest.raises(InvalidInput, match="A consent needs a name"):
        storage.consents.add("", "en", SOUND)
    with pytest.raises(InvalidInput, match="A consent needs a name"):
        storage.consents.rename("0" * 32, "a" * 81)
    with pytest.raises(InvalidInput):
        storage.consents.add("Anna", "e" * 36, SOUND)
    assert storage.consents.list() == []
