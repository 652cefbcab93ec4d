"""API keys: stored as hashes, limited, expired and revoked."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.errors import InvalidInput
from storage import Storage
from storage.api_keys import Allowance, NewKey
from storage.errors import KeyNotFound, NameTaken
from tests.storage.making import voice
from tests.storage.speaking import Clock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


def test_only_the_whole_key_is_found(storage: Storage) -> None:
    assert not storage.keys.any()
    record, key = storage.keys.create(NewKey("Home", "local", voices={"alloy": "Anna"}))
    assert key.startswith(record.hint)
    assert len(key) > 40
    assert storage.keys.any()
    assert storage.keys.find(key) == storage.keys.get(record.id) == record == storage.keys.list()[0]
    assert record.voices == {"alloy": "Anna"}
    for other in (record.hint, key[:-1], key + "x", "", record.id, "\ud800"):
        assert storage.keys.find(other) is None


def test_alias_of_a_saved_voice_is_its_id(storage: Storage) -> None:
    anna = storage.voices.add(voice("Anna"), owner="user:ann")
    storage.voices.add(voice("Ben"), owner="user:bob")
    aliases = {"alloy": " aNNa ", "echo": "Ben", "nova": "Clara"}
    record, _ = storage.keys.create(NewKey("Home", "user:ann", voices=aliases))
    assert record.voices == {"alloy": anna.id, "echo": "Ben", "nova": "Clara"}
    storage.voices.trash(anna.id, owner="user:ann")
    record, _ = storage.keys.create(NewKey("Other", "user:ann", voices={"alloy": "Anna"}))
    assert record.voices == {"alloy": "Anna"}, "a voice in the trash has no name"


def test_file_never_contains_a_key(tmp_path: Path) -> None:
    with Storage.open(tmp_path / "voices.db") as storage:
        _, key = storage.keys.create(NewKey("Home", "local"))
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key[:8].encode() in held  # the hint, by which the owner recognises the key
    assert key[8:].encode() not in held


def test_revoked_key_is_not_found_and_its_name_is_free(storage: Storage) -> None:
    _, key = storage.keys.create(NewKey("Home", "local"))
    with pytest.raises(NameTaken, match="There is a key “Home” already"):
        storage.keys.create(NewKey("Home", "user:ann"))
    storage.keys.revoke("Home")
    assert not storage.keys.any()
    assert storage.keys.find(key) is None
    with pytest.raises(KeyNotFound, match="no key “Home”"):
        storage.keys.revoke("Home")
    storage.keys.create(NewKey("Home", "local"))


def test_key_expires(storage: Storage, clock: Clock) -> None:
    record, key = storage.keys.create(NewKey("Guest", "local", expires=NOW + timedelta(days=1)))
    clock.now += timedelta(hours=23)
    assert storage.keys.find(key) == storage.keys.get(record.id) == record
    clock.now += timedelta(hours=1)
    assert storage.keys.find(key) is storage.keys.get(record.id) is None
    assert storage.keys.any()  # the server stays closed to programs without a key
    assert [each.name for each in storage.keys.list()] == ["Guest"]


def test_quota_resets_after_its_period(storage: Storage, clock: Clock) -> None:
    record, key = storage.keys.create(NewKey("Home", "local", quota=Allowance(100, 3600)))
    assert storage.keys.spend(record.id, 60)
    assert not storage.keys.spend(record.id, 41)
    assert storage.keys.spend(record.id, 40)
    found = storage.keys.find(key)
    assert found
    assert found.used == 100
    clock.now += timedelta(hours=1)
    found = storage.keys.find(key)
    assert found
    assert found.used == 0
    assert not storage.keys.spend(record.id, 101)
    assert storage.keys.spend(record.id, 100)
    storage.keys.revoke("Home")
    assert not storage.keys.spend(record.id, 1)


def test_largest_quota_is_not_exceeded(storage: Storage) -> None:
    record, _ = storage.keys.create(NewKey("Home", "local", quota=Allowance(2**31 - 1, 3600)))
    assert storage.keys.spend(record.id, 2**31 - 2)
    assert not storage.keys.spend(record.id, 2)
    assert storage.keys.spend(record.id, 1)


def test_concurrent_spending_never_exceeds_the_quota(storage: Storage) -> None:
    record, _ = storage.keys.create(NewKey("Home", "local", quota=Allowance(30, 3600)))
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: storage.keys.spend(record.id, 7), range(12)))
    assert sum(done) == 4


@pytest.mark.parametrize(
    "new",
    [
        NewKey("", "local"),
        NewKey("Home", ""),
        NewKey("Home", "local", rate=Allowance(0, 60)),
        NewKey("Home", "local", quota=Allowance(10, 10**9)),
        NewKey("Home", "local", expires=NOW),
    ],
)
def test_invalid_key_is_rejected(storage: Storage, new: NewKey) -> None:
    with pytest.raises(InvalidInput):
        storage.keys.create(new)
    assert storage.keys.list() == []


def test_forgetting_an_owner_revokes_their_keys(storage: Storage) -> None:
    _, mine = storage.keys.create(NewKey("Mine", "user:ann"))
    _, other = storage.keys.create(NewKey("Other", "user:bob"))
    storage.delete_owner("user:ann")
    assert storage.keys.find(mine) is None
    assert storage.keys.find(other)
