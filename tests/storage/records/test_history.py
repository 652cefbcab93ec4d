"""History: takes are stored, found and deleted, and lists never read the audio."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, select

from engine.errors import InvalidInput
from storage.database import Database
from storage.errors import DatabaseUnavailable, OwnerDeleted, TakeNotFound
from storage.models import OwnerDeletionRow
from storage.repositories.owner_settings import OwnerSettings
from storage.repositories.takes import NewTake, TakeRecord, TimedWord
from storage.repositories.voices import usage
from storage.repositories.voices.usage import VoiceUse
from storage.storage import Storage
from tests.storage.making import clip, count_rows, voice
from tests.storage.speaking import FLAC, Clock, card, spoken

UNKNOWN_ID = "0" * 32


def add(storage: Storage, text: str = "Hello.", *, owner: str = "local", **how: object) -> TakeRecord:
    made = storage.history.add(replace(spoken(text), **how), owner=owner)  # type: ignore[arg-type]
    assert made is not None
    return made


def expire_daily(storage: Storage, clock: Clock, *, days: int) -> int:
    """Let days pass; return the number of takes that have expired."""
    expired = 0
    for _ in range(days):
        clock.pass_time(days=1)
        expired += storage.history.expire()
    return expired


def texts(storage: Storage, **which: object) -> list[str]:
    return [record.text for record in storage.history.page(**which).records]  # type: ignore[arg-type]


def test_take_is_unchanged_after_reopening(url: str, clock: Clock) -> None:
    kept = NewTake(
        text="Grüße, שלום 👩‍🚀 [laugh]!",
        audio=clip(3),
        duration=2.5,
        seed=2**31 - 1,
        voice_name="Ада",
        voice_id="a" * 32,
        settings={"temperature": 0.7, "top_k": 30, "note": "ü", "fast": True, "none": None},
        model="s2-pro",
        stop_reason="length",
        real_time_factor=0.5,
        first_audio=0.04,
        words=(TimedWord(0, 6, 0.125, 0.5), TimedWord(7, 11, 0.5, 1.25)),
    )
    with Storage.open(url, clock=clock) as storage:
        made = storage.history.add(kept)
        assert made is not None
    with Storage.open(url) as storage:
        read = storage.history.get(made.id)
        assert read == made
        assert storage.history.audio(made.id) == kept.audio
    for name in ("text", "duration", "seed", "voice_name", "voice_id", "settings", "model", "stop_reason", "words"):
        assert getattr(read, name) == getattr(kept, name)
    assert (read.created, read.size, read.listed, read.starred) == (clock(), len(kept.audio), True, False)


def test_pages_are_newest_first(storage: Storage, clock: Clock) -> None:
    for number in range(7):
        add(storage, f"Number {number}.")
        clock.pass_time(seconds=1)
    page = storage.history.page(limit=3)
    assert [record.text for record in page.records] == ["Number 6.", "Number 5.", "Number 4."]
    assert page.total == 7
    for wrong in ({"limit": 0}, {"limit": 10_000}, {"search": "a" * 201}):
        with pytest.raises(InvalidInput):
            storage.history.page(**wrong)


def test_search_ignores_case_and_accents_and_includes_voice_names(storage: Storage) -> None:
    add(storage, "Über den Wolken 100%", voice_name="José")
    add(storage, "Under the clouds", voice_name="Ann")
    for words in ("WOLKEN uber", "jose", "100%", "den josé"):
        assert texts(storage, search=words) == ["Über den Wolken 100%"], words
    assert texts(storage, search="%") == ["Über den Wolken 100%"]
    assert texts(storage, search="wolken ann") == []


def test_filter_by_starred_and_voice(storage: Storage) -> None:
    first = add(storage, "First.", voice_id="a" * 32)
    add(storage, "Second.", voice_id="b" * 32)
    assert storage.history.star(first.id).starred
    assert texts(storage, starred=True) == ["First."]
    assert texts(storage, voice_id="b" * 32) == ["Second."]
    assert texts(storage, voice_id="'; --") == []
    assert not storage.history.star(first.id, False).starred
    assert texts(storage, starred=True) == []


def test_delete_removes_only_the_owners_take(storage: Storage, url: str) -> None:
    first, second = add(storage, "First."), add(storage, "Second.", owner="other")
    storage.history.delete(first.id)
    with pytest.raises(TakeNotFound):
        storage.history.get(first.id)
    assert count_rows(url, "generation_audio") == 1
    with pytest.raises(TakeNotFound):
        storage.history.delete(second.id)
    storage.history.delete(second.id, owner="other")
    assert count_rows(url, "generation_audio") == 0


def test_withdrawn_takes_stay_in_their_script(storage: Storage, url: str) -> None:
    script = storage.scripts.create("Play", [card("One."), card("Two.")])
    for each in storage.scripts.cards(script.id):
        storage.scripts.attach(each.id, spoken(each.text))
    plain, take = add(storage, "Plain."), storage.history.page(search="one").records[0]
    storage.history.star(take.id)
    storage.history.withdraw(plain.id)
    storage.history.withdraw(take.id)
    assert texts(storage) == ["Two."]
    assert texts(storage, starred=True) == []
    left = storage.history.get(take.id)
    assert (left.listed, left.starred, left.script_id) == (False, False, script.id)
    with pytest.raises(TakeNotFound):
        storage.history.get(plain.id)
    add(storage, "Theirs.", owner="other")
    add(storage, "Another.")
    assert storage.history.clear() == 2
    assert storage.history.clear() == 0
    assert texts(storage) == []
    assert texts(storage, owner="other") == ["Theirs."]
    assert storage.scripts.list()[0].done == 2
    assert count_rows(url, "generation_audio") == 3


def test_history_voices_have_their_latest_names(storage: Storage, clock: Clock) -> None:
    for voice_id, name in (("a", "Ann"), ("b", "Ben"), ("a", "Anna"), ("c", "Gone"), ("b", "Ben")):
        add(storage, voice_id=voice_id * 32, voice_name=name)
        clock.pass_time(seconds=1)
    add(storage, voice_id=None, voice_name="Passing")
    add(storage, voice_id="d" * 32, voice_name="Theirs", owner="other")
    assert [(voice.id[0], voice.name, voice.entries) for voice in storage.history.voices()] == [
        ("b", "Ben", 2),
        ("c", "Gone", 1),
        ("a", "Anna", 2),
    ]


def test_holdings_count_the_owners_content(storage: Storage) -> None:
    assert storage.owner_counts().empty
    script = storage.scripts.create("Play", [card("One.")])
    assert not storage.owner_counts().empty
    (first,) = storage.scripts.cards(script.id)
    storage.scripts.attach(first.id, spoken("One."))
    storage.history.star(add(storage).id)
    add(storage)
    add(storage, owner="other")
    storage.voices.add(voice())
    found = storage.owner_counts()
    numbers = (found.voices, found.history, found.starred, found.scripts, found.takes)
    assert numbers == (1, 3, 1, 1, 1)
    assert found.storage == storage.storage_use()
    storage.delete_owner("local")
    assert storage.owner_counts().empty


@pytest.mark.parametrize("take_id", [UNKNOWN_ID, "", "x", "a" * 33, "\0", "%"])
def test_unknown_take_raises(storage: Storage, take_id: str) -> None:
    for call in (
        storage.history.get,
        storage.history.audio,
        storage.history.star,
        storage.history.delete,
        storage.history.withdraw,
    ):
        with pytest.raises(TakeNotFound):
            call(take_id)


def test_history_can_be_switched_off(storage: Storage, url: str) -> None:
    kept = add(storage)
    assert storage.history.change_settings(history=False) == OwnerSettings(False, 30)
    assert storage.history.add(spoken("Secret.")) is None
    assert storage.uses.all()["e" * 32].times == 1
    assert count_rows(url, "generations") == count_rows(url, "generation_audio") == 1
    assert storage.history.get(kept.id) == kept
    assert add(storage, "Theirs.", owner="other").listed
    storage.history.change_settings(history=True)
    assert add(storage, "Again.").text == "Again."


def test_expire_deletes_old_takes_but_not_starred_ones(storage: Storage, clock: Clock) -> None:
    starred = add(storage, "Starred.")
    storage.history.star(starred.id)
    add(storage, "Old.")
    add(storage, "Kept longer.", owner="patient")
    add(storage, "Kept briefly.", owner="hasty")
    storage.history.change_settings(retention_days=60, owner="patient")
    storage.history.change_settings(retention_days=1, owner="hasty")
    clock.pass_time(days=1)
    assert storage.history.expire() == 0, "exactly at the retention limit"
    clock.pass_time(seconds=1)
    assert storage.history.expire() == 1
    assert texts(storage, owner="hasty") == []
    expire_daily(storage, clock, days=15)
    add(storage, "New.")
    assert expire_daily(storage, clock, days=15) == 1
    assert texts(storage) == ["New.", "Starred."]
    assert texts(storage, owner="patient") == ["Kept longer."]
    assert expire_daily(storage, clock, days=31) == 2
    assert texts(storage) == ["Starred."]


def test_clock_that_is_wrong_once_deletes_nothing(storage: Storage, clock: Clock) -> None:
    """It cannot be told from the start of a server that was off for long, which deletes later."""
    add(storage, "Old.")
    expire_daily(storage, clock, days=20)
    add(storage, "New.")
    right = clock.now
    clock.pass_time(days=9 * 365)
    assert storage.history.expire() == 0
    clock.now = right
    assert storage.history.expire() == 0
    clock.pass_time(days=-1)
    assert storage.history.expire() == 0
    assert texts(storage) == ["New.", "Old."]
    clock.now = right
    clock.pass_time(days=11)
    assert storage.history.expire() == 0, "as after a holiday"
    clock.pass_time(hours=19)
    assert storage.history.expire() == 0
    clock.pass_time(hours=2)
    assert storage.history.expire() == 1
    assert texts(storage) == ["New."]
    clock.pass_time(days=60)
    assert storage.history.expire() == 0
    clock.pass_time(days=60)
    assert storage.history.expire() == 1, "also if a server always runs for less than a day"
    for value in ("", "x", "2026-11-21T08:00:00", "2026-11-21T08:00:00 x"):  # without a zone
        storage.settings.put("last_expiry", value)
        with pytest.raises(DatabaseUnavailable, match="damaged"):
            storage.history.expire()


def test_clock_that_is_wrong_for_hours_deletes_nothing(storage: Storage, clock: Clock) -> None:
    """The server looks for old takes at each start, so it may do so often under the same wrong clock."""
    add(storage, "Old.")
    expire_daily(storage, clock, days=20)
    right = clock.now
    for wrong in (40, 9 * 365, 35):
        clock.now = right + timedelta(days=wrong)
        for _ in range(3):
            assert storage.history.expire() == 0
            clock.pass_time(hours=6)
        right += timedelta(hours=18)
        clock.now = right
        assert storage.history.expire() == 0
    assert expire_daily(storage, clock, days=7) == 0
    assert expire_daily(storage, clock, days=1) == 1, "the right clock is trusted at once"


def test_clock_that_was_long_wrong_is_trusted_again_when_it_is_right(storage: Storage, clock: Clock) -> None:
    storage.history.expire()
    right = clock.now
    clock.pass_time(days=365)
    expire_daily(storage, clock, days=2)
    clock.now = right
    add(storage, "Old.")
    assert storage.history.expire() == 0
    clock.pass_time(days=300)
    assert storage.history.expire() == 0, "a time before a wrong one is not trusted for that"
    clock.now = right
    assert expire_daily(storage, clock, days=31) == 1


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_retention_has_bounds(storage: Storage, days: int) -> None:
    with pytest.raises(InvalidInput):
        storage.history.change_settings(retention_days=days)
    assert storage.history.settings() == OwnerSettings(True, 30)


def test_history_of_a_deleted_voice_stays_readable(storage: Storage) -> None:
    record = storage.voices.add(voice("Ada"))
    made = add(storage, voice_id=record.id, voice_name=record.name)
    storage.voices.delete(record.id)
    assert storage.history.get(made.id).voice_name == "Ada"
    assert storage.history.audio(made.id) == FLAC


def test_voice_uses_survive_clearing_the_history(storage: Storage) -> None:
    for duration in (1.0, 2.5):
        add(storage, voice_id="a" * 32, duration=duration)
    add(storage, voice_id=None)
    add(storage, owner="other", voice_id="a" * 32)
    assert storage.history.clear() == 3
    assert storage.uses.all() == {"a" * 32: VoiceUse(2, 3.5)}


def test_uses_are_counted_after_an_unexpected_error(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_given: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(usage, "count_use", fail)
        storage.uses.add("a" * 32, 1.5, owner="local", deletion_token=storage.deletion_token())
        storage.uses.wait()
    storage.uses.add("a" * 32, 2.5, owner="local", deletion_token=storage.deletion_token())
    storage.uses.wait()
    assert storage.uses.all() == {"a" * 32: VoiceUse(1, 2.5)}


def test_uses_that_are_no_takes_are_counted_too(storage: Storage) -> None:
    add(storage, voice_id="a" * 32, duration=1.0)
    storage.history.change_settings(history=False, owner="discreet")
    for owner in ("local", "local", "other", "discreet"):
        storage.uses.add("a" * 32, 1.5, owner=owner, deletion_token=storage.deletion_token(owner=owner))
    storage.uses.add("model:Ryan", 1.5, owner="local", deletion_token="")
    storage.uses.wait()
    assert storage.uses.all() == {"a" * 32: VoiceUse(3, 4.0)}
    assert storage.uses.all(owner="other") == {"a" * 32: VoiceUse(1, 1.5)}
    assert storage.uses.all(owner="discreet") == {}

    before = storage.deletion_token()
    storage.delete_owner("local")
    storage.uses.add("a" * 32, 1.5, owner="local", deletion_token=before)
    storage.uses.wait()
    assert storage.uses.all() == {}


def test_uses_that_cannot_be_written_are_logged_and_later_ones_counted(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_database: Database) -> None:
        raise DatabaseUnavailable("database.busy")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", refuse)
        storage.uses.add("a" * 32, 1.5, owner="local", deletion_token="")
        storage.uses.wait()
    assert "could not be counted" in caplog.text
    storage.uses.add("a" * 32, 2.0, owner="local", deletion_token="")
    storage.uses.wait()
    assert storage.uses.all() == {"a" * 32: VoiceUse(1, 2.0)}


def test_storage_use_is_in_bytes(storage: Storage) -> None:
    assert storage.storage_use().total == 0
    add(storage)
    add(storage, owner="other")
    storage.voices.add(voice(references=2))
    use = storage.storage_use()
    assert use.takes == len(FLAC)
    assert use.voices > len(clip(0)) + len(clip(1))
    assert use.total == use.voices + use.takes


def test_forget_deletes_all_of_one_owner_and_nothing_of_others(storage: Storage, url: str) -> None:
    for owner in ("gone", "stays"):
        add(storage, owner=owner)
        storage.voices.add(voice(), owner=owner)
        script = storage.scripts.create("Play", [card("One.")], owner=owner)
        (first,) = storage.scripts.cards(script.id, owner=owner)
        storage.scripts.attach(first.id, spoken("One."), owner=owner)
        storage.history.change_settings(history=False, owner=owner)
    storage.delete_owner("gone")
    assert storage.storage_use(owner="gone").total == 0
    assert storage.history.settings(owner="gone") == OwnerSettings()
    assert storage.uses.all(owner="gone") == {}
    for table, rows in (("voices", 1), ("generations", 2), ("generation_audio", 2), ("scripts", 1), ("card_takes", 1)):
        assert count_rows(url, table) == rows, table
    assert not storage.history.settings(owner="stays").history


def test_deletion_of_an_owner_is_remembered_for_days_without_their_name(database: Database, url: str) -> None:
    clock = Clock(datetime(2026, 11, 21, tzinfo=UTC))
    storage = Storage(database, clock)
    before = storage.deletion_token(owner="gone")
    storage.delete_owner("gone")
    with database.read() as session:
        (row,) = session.scalars(select(OwnerDeletionRow))
    assert "gone" not in (row.owner_digest, row.mark)
    for days, remembered in ((2, True), (0.1, False)):
        clock.pass_time(days=days)
        storage.history.expire()
        assert storage.deleted_since(before, owner="gone") == remembered
    assert count_rows(url, "owner_deletions") == 0


@pytest.mark.parametrize("kind", ["take", "voice", "consent", "script"])
def test_what_was_in_progress_during_a_deletion_is_not_stored(storage: Storage, kind: str) -> None:
    def add(token: str, owner: str = "gone") -> object:
        add: dict[str, Callable[[], object]] = {
            "take": lambda: storage.history.add(spoken(), owner=owner, deletion_token=token),
            "voice": lambda: storage.voices.add(voice(), owner=owner, deletion_token=token),
            "consent": lambda: storage.consents.add("Ada", "en", b"I agree.", owner=owner, deletion_token=token),
            "script": lambda: storage.scripts.create("Play", [card("Hello.")], owner=owner, deletion_token=token),
        }
        return add[kind]()

    before = storage.deletion_token(owner="gone")
    storage.delete_owner("gone")
    with pytest.raises(OwnerDeleted):
        add(before)
    assert storage.storage_use(owner="gone").total == 0
    assert storage.scripts.list(owner="gone") == []
    assert add(storage.deletion_token(owner="gone"))
    assert add(storage.deletion_token(owner="stays"), owner="stays")


def test_deleted_audio_is_not_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "voices.sqlite"
    secret = b"fLaC" + b"what-was-whispered" * 500
    with Storage.open(path) as storage:
        made = storage.history.add(replace(spoken("x"), audio=secret))
        assert made is not None
        storage.history.delete(made.id)
        found = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"whispered" not in found


@pytest.mark.parametrize(
    "wrong",
    [
        {"audio": b""},
        {"audio": b"RIFF"},
        {"duration": 0.0},
        {"duration": float("nan")},
        {"seed": -1},
        {"seed": 2**31},
        {"text": "a\0b"},
        {"text": "\ud800"},
        {"voice_name": "a" * 81},
        {"voice_id": "no id"},
        {"real_time_factor": float("inf")},
        {"first_audio": -1.0},
    ],
)
def test_invalid_take_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(spoken(), **wrong)  # type: ignore[arg-type]
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("settings", [{"a": float("nan")}, {"a": object()}, {"a": "b" * 5_000}])
def test_invalid_settings_are_rejected(storage: Storage, settings: dict[str, object], url: str) -> None:
    with pytest.raises(InvalidInput):
        add(storage, settings=settings)
    assert count_rows(url, "generations") == 0


def test_lists_never_read_the_audio(sqlite: str) -> None:
    """SQLite denies access to the audio column while everything else is read."""
    touched: list[tuple[str, str]] = []

    def authorize(action: int, table: str | None, column: str | None, *_: object) -> int:
        refused = action == sqlite3.SQLITE_READ and (table, column) == ("generation_audio", "audio")
        if refused:
            touched.append((str(table), str(column)))
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_authorizer(authorize)

    with Storage.open(sqlite) as storage:
        script = storage.scripts.create("Play", [card(f"Card {number}.") for number in range(5)])
        for each in storage.scripts.cards(script.id):
            storage.scripts.attach(each.id, spoken(each.text))
        for number in range(20):
            add(storage, f"Number {number}.")
    event.listen(Engine, "connect", watch)
    try:
        with Storage.open(sqlite) as storage:
            page = storage.history.page(limit=500, search="number")
            assert page.total == len(page.records) == 20
            assert storage.history.star(page.records[0].id).starred
            assert storage.storage_use().takes == 25 * len(FLAC)
            assert storage.scripts.list()[0].done == 5
            cards = storage.scripts.cards(script.id)
            assert [len(storage.scripts.takes(each.id)) for each in cards] == [1] * 5
            assert touched == []
            with pytest.raises(Exception, match="reports an error"):
                storage.history.audio(page.records[0].id)
    finally:
        event.remove(Engine, "connect", watch)


def test_expire_uses_only_the_given_clock(sqlite: str) -> None:
    clock = Clock(datetime(1999, 12, 31, 23, 59, tzinfo=UTC))
    with Storage.open(sqlite, clock=clock) as storage:
        made = add(storage)
        assert made.created == clock()
        assert storage.history.expire() == 0
        clock.now += timedelta(days=31)
        assert storage.history.expire() == 0
        clock.now += timedelta(days=1)
        assert storage.history.expire() == 1
    with closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("SELECT count(*) FROM generation_audio").fetchone() == (0,)
