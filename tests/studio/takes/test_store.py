"""Storage of takes, and isolation by owner."""

import pytest

from engine.errors import DatabaseUnavailable, GenerationNotFound
from storage import Storage
from storage.repositories.generations import GenerationRecord, NewGeneration
from studio.takes.store import DELETION_HOURS, TakeStore, TemporaryTakes
from tests.support.clock import Clock

ANNA, BEN = "browser:anna", "browser:ben"


def spoken(text: str = "Hello there.", size: int = 10) -> NewGeneration:
    return NewGeneration(text, b"fLaC" + bytes(size - 4), 1.5, 7, "Anna", settings={"temperature": 0.7})


def held(temporary: TemporaryTakes, *records: GenerationRecord) -> list[bool]:
    found = []
    for record in records:
        try:
            found.append(temporary.get(record.id, owner=record.owner) == record)
        except GenerationNotFound:
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
    takes = TakeStore(storage.history)
    kept = takes.save(spoken(), owner=ANNA, started=takes.begin())
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
        with pytest.raises(GenerationNotFound):
            act()
    assert takes.star(kept.id, True, owner=ANNA).starred
    assert takes.get(kept.id, owner=ANNA).starred
    assert [record.id for record in storage.history.page(owner=ANNA).records] == ([kept.id] if history else [])
    takes.delete(kept.id, owner=ANNA)
    with pytest.raises(GenerationNotFound):
        takes.get(kept.id, owner=ANNA)


def test_take_is_kept_in_memory_when_the_history_fails(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("The disk is full.")

    monkeypatch.setattr(storage.history, "add", fail)
    takes = TakeStore(storage.history)
    kept = takes.save(spoken(), owner=ANNA, started=takes.begin())
    assert kept is not None
    assert takes.audio(kept.id, owner=ANNA) == spoken().audio
    with takes.deleting_owner(ANNA):
        pass
    with pytest.raises(GenerationNotFound):
        takes.get(kept.id, owner=ANNA)


def test_deletions_are_remembered_for_a_day(storage: Storage) -> None:
    clock = Clock()
    takes = TakeStore(storage.history, clock=clock)
    started = takes.begin()
    with takes.deleting_owner(ANNA):
        pass
    clock.now = DELETION_HOURS * 3600
    with takes.deleting_owner(BEN):
        pass
    assert takes.save(spoken(), owner=ANNA, started=started) is None
    clock.now += 1
    with takes.deleting_owner(BEN):
        pass
    assert set(takes._deleted) == {BEN}


@pytest.mark.parametrize("history", [True, False])
def test_take_in_progress_during_forget_is_not_kept(
    storage: Storage, history: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.history.change_settings(history=history, owner=ANNA)
    temporary, clock = TemporaryTakes(), Clock()
    takes = TakeStore(storage.history, temporary, clock=clock)
    started = takes.begin()
    with takes.deleting_owner(ANNA):
        pass
    assert takes.save(spoken(), owner=ANNA, started=started) is None
    assert takes.save(spoken(), owner=BEN, started=started) is not None
    clock.now = 1.0
    started = takes.begin()
    assert takes.save(spoken(), owner=ANNA, started=started) is not None, "takes begun afterwards are kept"

    place, name = (storage.history, "add") if history else (temporary, "add")
    add = getattr(place, name)
    clock.now = 2.0

    def add_after_forget(*given: object, **more: object) -> object:
        with takes.deleting_owner(ANNA):
            storage.forget(ANNA)
        kept.append(add(*given, **more))
        return kept[-1]

    kept: list[GenerationRecord] = []
    monkeypatch.setattr(place, name, add_after_forget)
    assert takes.save(spoken(), owner=ANNA, started=started) is None
    with pytest.raises(GenerationNotFound):
        takes.get(kept[0].id, owner=ANNA)


def test_failed_forget_keeps_takes(storage: Storage) -> None:
    takes = TakeStore(storage.history)
    storage.history.change_settings(history=False, owner=ANNA)
    started = takes.begin()
    kept = takes.save(spoken(), owner=ANNA, started=started)
    assert kept is not None
    with pytest.raises(DatabaseUnavailable), takes.deleting_owner(ANNA):
        raise DatabaseUnavailable("The database is locked.")
    assert takes.get(kept.id, owner=ANNA) == kept
    assert takes.save(spoken(), owner=ANNA, started=started) is not None, "takes in progress are kept too"
