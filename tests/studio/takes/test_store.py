"""Storage of takes, and isolation by owner."""

import pytest

from storage import Storage
from storage.errors import DatabaseUnavailable, TakeNotFound
from storage.repositories.takes import NewTake, TakeRecord
from studio.takes.store import TakeStore, TemporaryTakes
from tests.support.clock import Clock

ANNA, BEN = "browser:anna", "browser:ben"


def spoken(text: str = "Hello there.", size: int = 10) -> NewTake:
    return NewTake(text, b"fLaC" + bytes(size - 4), 1.5, 7, "Anna", settings={"temperature": 0.7})


def held(temporary: TemporaryTakes, *records: TakeRecord) -> list[bool]:
    found = []
    for record in records:
        try:
            found.append(temporary.get(record.id, owner=record.owner) == record)
        except TakeNotFound:
            found.append(False)
    return found


def test_oldest_takes_are_dropped_by_owner_and_in_total() -> None:
    temporary = TemporaryTakes(most=2, most_bytes=35)
    bens = temporary.add(spoken(), owner=BEN)
    hers = [temporary.add(spoken(), owner=ANNA) for _ in range(3)]
    assert held(temporary, bens, *hers) == [True, False, True, True]
    large = temporary.add(spoken(size=30), owner=BEN)
    assert held(temporary, bens, *hers, large) == [False, False, False, False, True]
    larger = temporary.add(spoken(size=100), owner=BEN)
    assert held(temporary, large, larger) == [False, True], "the newest take stays"


def test_takes_expire_after_hours() -> None:
    clock = Clock()
    temporary = TemporaryTakes(hours=1, clock=clock)
    take = temporary.add(spoken(), owner=ANNA)
    clock.now = 3599
    assert held(temporary, take) == [True]
    clock.now = 3600
    assert held(temporary, take) == [False]
    temporary.add(spoken(), owner=BEN)
    clock.now = 0
    assert held(temporary, take) == [False], "its audio is deleted, not only hidden"


@pytest.mark.parametrize("history", [True, False])
def test_takes_are_isolated_by_owner_in_history_and_memory(storage: Storage, history: bool) -> None:
    storage.history.change_settings(history=history, owner=ANNA)
    takes = TakeStore(storage)
    kept = takes.save(spoken(), owner=ANNA, deletion_token=takes.deletion_token(owner=ANNA))
    assert kept is not None
    assert kept.listed == history
    assert (kept.text, kept.seed, kept.duration, dict(kept.settings)) == ("Hello there.", 7, 1.5, {"temperature": 0.7})
    assert takes.audio(kept.id, owner=ANNA) == spoken().audio
    for act in (
        lambda: takes.get(kept.id, owner=BEN),
        lambda: takes.audio(kept.id, owner=BEN),
        lambda: takes.star(kept.id, True, owner=BEN),
        lambda: takes.delete(kept.id, owner=BEN),
    ):
        with pytest.raises(TakeNotFound):
            act()
    assert takes.star(kept.id, True, owner=ANNA).starred
    assert takes.get(kept.id, owner=ANNA).starred
    assert [record.id for record in storage.history.page(owner=ANNA).records] == ([kept.id] if history else [])
    takes.delete(kept.id, owner=ANNA)
    with pytest.raises(TakeNotFound):
        takes.get(kept.id, owner=ANNA)


def test_take_is_kept_in_memory_when_the_history_fails(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("The disk is full.")

    monkeypatch.setattr(storage.history, "add", fail)
    takes = TakeStore(storage)
    began = takes.deletion_token(owner=ANNA)
    monkeypatch.setattr(storage, "deletion_token", fail)
    kept = takes.save(spoken(), owner=ANNA, deletion_token=began)
    assert kept is not None
    assert takes.audio(kept.id, owner=ANNA) == spoken().audio
    takes.delete_owner(ANNA)
    with pytest.raises(TakeNotFound):
        takes.get(kept.id, owner=ANNA)


@pytest.mark.parametrize("history", [True, False])
def test_take_in_progress_during_forget_is_not_kept(storage: Storage, history: bool) -> None:
    """Whichever process deletes the data: nothing but the database is shared with it."""
    for _ in range(2):
        storage.history.change_settings(history=history, owner=ANNA)
        takes = TakeStore(storage)
        hers, his = takes.deletion_token(owner=ANNA), takes.deletion_token(owner=BEN)
        storage.delete_owner(ANNA)
        storage.history.change_settings(history=history, owner=ANNA)
        assert takes.save(spoken(), owner=ANNA, deletion_token=hers) is None
        assert takes.save(spoken(), owner=BEN, deletion_token=his) is not None
        kept = takes.save(spoken(), owner=ANNA, deletion_token=takes.deletion_token(owner=ANNA))
        assert kept is not None, "takes begun afterwards are kept"
        assert kept.listed == history
        assert storage.history.page(owner=ANNA).total == (1 if history else 0)


def test_takes_in_memory_are_dropped_when_another_process_deletes_their_owner(storage: Storage) -> None:
    for owner in (ANNA, BEN):
        storage.history.change_settings(history=False, owner=owner)
    temporary = TemporaryTakes()
    takes = TakeStore(storage, temporary)
    hers, his = (
        takes.save(spoken(), owner=owner, deletion_token=takes.deletion_token(owner=owner)) for owner in (ANNA, BEN)
    )
    storage.delete_owner(ANNA)
    later = temporary.add(spoken(), owner=ANNA, deletion_token=takes.deletion_token(owner=ANNA))
    assert hers
    assert his
    takes.drop_deleted()
    assert held(temporary, hers, his, later) == [False, True, True]
