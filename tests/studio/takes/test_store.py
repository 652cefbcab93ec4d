"""Where takes are kept, and that nobody finds another's."""

import pytest

from engine.errors import DatabaseUnavailable, GenerationNotFound
from storage import Storage
from storage.repositories.generations import GenerationRecord, Spoken
from studio.takes.store import DELETION_HOURS, TakeStore, TemporaryTakes
from tests.support.clock import Clock

ANNA, BEN = "browser:anna", "browser:ben"


def spoken(text: str = "Hello there.", size: int = 10) -> Spoken:
    return Spoken(text, b"fLaC" + bytes(size - 4), 1.5, 7, "Anna", settings={"temperature": 0.7})


def held(temporary: TemporaryTakes, *records: GenerationRecord) -> list[bool]:
    found = []
    for record in records:
        try:
            found.append(temporary.get(record.id, owner=record.owner) == record)
        except GenerationNotFound:
            found.append(False)
    return found


def test_the_store_forgets_the_oldest_of_an_owner_and_of_all() -> None:
    temporary = TemporaryTakes(most=2, most_bytes=35)
    bens = temporary.add(spoken(), owner=BEN)
    hers = [temporary.add(spoken(), owner=ANNA) for _ in range(3)]
    assert held(temporary, bens, *hers) == [True, False, True, True]
    large = temporary.add(spoken(size=30), owner=BEN)
    assert held(temporary, bens, *hers, large) == [False, False, False, False, True]
    larger = temporary.add(spoken(size=100), owner=BEN)
    assert held(temporary, large, larger) == [False, True], "the one that was just spoken stays"


def test_the_store_forgets_after_hours() -> None:
    clock = Clock()
    temporary = TemporaryTakes(hours=1, clock=clock)
    take = temporary.add(spoken(), owner=ANNA)
    clock.now = 3599
    assert held(temporary, take) == [True]
    clock.now = 3600
    assert held(temporary, take) == [False]
    temporary.add(spoken(), owner=BEN)
    clock.now = 0
    assert held(temporary, take) == [False], "its sound is gone, not only out of sight"


@pytest.mark.parametrize("history", [True, False])
def test_a_take_is_its_owners_alone_wherever_it_is(storage: Storage, history: bool) -> None:
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


def test_where_the_history_fails_the_take_is_still_there(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_was_being_spoken_when_everything_was_forgotten_is_not_kept(
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
    assert takes.save(spoken(), owner=ANNA, started=started) is not None, "what began afterwards is wanted again"

    place, name = (storage.history, "add") if history else (temporary, "add")
    add = getattr(place, name)
    clock.now = 2.0

    def forgotten_meanwhile(*given: object, **more: object) -> object:
        with takes.deleting_owner(ANNA):
            storage.forget(ANNA)
        kept.append(add(*given, **more))
        return kept[-1]

    kept: list[GenerationRecord] = []
    monkeypatch.setattr(place, name, forgotten_meanwhile)
    assert takes.save(spoken(), owner=ANNA, started=started) is None
    with pytest.raises(GenerationNotFound):
        takes.get(kept[0].id, owner=ANNA)


def test_nothing_is_forgotten_when_the_database_fails(storage: Storage) -> None:
    takes = TakeStore(storage.history)
    storage.history.change_settings(history=False, owner=ANNA)
    started = takes.begin()
    kept = takes.save(spoken(), owner=ANNA, started=started)
    assert kept is not None
    with pytest.raises(DatabaseUnavailable), takes.deleting_owner(ANNA):
        raise DatabaseUnavailable("The database is locked.")
    assert takes.get(kept.id, owner=ANNA) == kept
    assert takes.save(spoken(), owner=ANNA, started=started) is not None, "what was being spoken is kept as well"
