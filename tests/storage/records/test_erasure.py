"""Deleted and replaced data leaves no bytes in the files, also where the erasure is delayed at first."""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Table, event, text
from sqlalchemy.orm import Session

from engine.errors import InvalidInput
from engine.voice import Voice
from storage import Storage
from storage.database import Database
from storage.errors import DatabaseUnavailable, DiskFull
from storage.models import LEAD_BYTES, Base
from storage.repositories.scripts.hearings import Hearing
from storage.repositories.voices import voices
from storage.sqlite import erasure, maintenance
from storage.sqlite.reserve import RESERVE_BYTES
from tests.attack.storage import leftovers
from tests.attack.storage.marked import Marker, leftover_tokens, tokens_in_rows
from tests.attack.storage.power import write_files
from tests.attack.storage.workloads import NAME, library_of_version, state_of
from tests.storage.making import open_voices, run_concurrently
from tests.storage.speaking import card, spoken

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.fixture
def mark() -> Marker:
    return Marker(Random(7))


@pytest.fixture
def storage(path: Path) -> Iterator[Storage]:
    with Storage.open(path, busy_timeout=0.1) as opened:
        yield opened


@pytest.mark.parametrize("seed", [22, 31])  # 0: test_storage_attack.py
def test_rows_moved_between_pages_leave_no_bytes(seed: int) -> None:
    """With these seeds bytes remain unless tables are rewritten."""
    assert leftovers.crowded(seed).broken == []


def test_renaming_erases_the_old_name(storage: Storage, path: Path, mark: Marker) -> None:
    kept = [storage.voices.add(mark.voice()) for _ in range(20)]
    for record in kept:
        storage.voices.rename(record.id, mark.token())
    storage.voices.purge_expired()
    assert leftover_tokens(path) == set()


def test_open_reader_only_delays_erasure(storage: Storage, path: Path, mark: Marker) -> None:
    record = storage.voices.add(mark.voice())
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM voices").fetchone() == (1,)
        storage.voices.delete(record.id)
        assert leftover_tokens(path) != set()  # in the log, which the open transaction still reads
        storage.voices.purge_expired()
        assert leftover_tokens(path) != set()
    storage.voices.purge_expired()
    assert leftover_tokens(path) == set()


def test_next_process_completes_a_delayed_erasure(path: Path, mark: Marker) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        with Storage.open(path, busy_timeout=0.1) as storage:
            record = storage.voices.add(mark.voice())
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM voices").fetchone() == (1,)
            storage.voices.delete(record.id)
        assert leftover_tokens(path) != set()
        reader.execute("ROLLBACK")
        with Storage.open(path) as storage:
            storage.voices.purge_expired()
        assert leftover_tokens(path) == set()


def test_concurrent_readers_and_writers_only_delay_erasure(path: Path, mark: Marker) -> None:
    made = [[mark.voice() for _ in range(4)] for _ in range(3)]
    over = threading.Event()

    with Storage.open(path) as storage:

        def write(own: list[Voice]) -> None:
            for voice in own:
                record = storage.voices.add(voice)
                storage.voices.load(record.id)
                storage.voices.delete(record.id)
            over.set()

        def read() -> None:
            while not over.is_set():
                storage.voices.list()

        run_concurrently([*(lambda own=own: write(own) for own in made), read, read])
        storage.voices.purge_expired()
        assert tokens_in_rows(path) == leftover_tokens(path) == set()


def test_library_of_an_earlier_version_is_erased(path: Path) -> None:
    write_files(library_of_version("0005"), path.parent)
    with closing(sqlite3.connect(path)) as before, before:
        before.execute("PRAGMA secure_delete = ON")
        before.execute("PRAGMA foreign_keys = ON")
        before.execute("UPDATE voices SET name = 'renamed', name_key = id, search_key = id")
        before.execute("DELETE FROM voices WHERE rowid % 2")
    with Storage.open(path) as storage:
        storage.voices.purge_expired()
        assert leftover_tokens(path) == set()
        assert len(storage.voices.list()) == 3


def test_large_library_is_erased_by_the_next_maintenance(
    storage: Storage, path: Path, mark: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "QUICK", 1e-6)
    first, second = (storage.voices.add(mark.voice()) for _ in range(2))
    storage.voices.delete(first.id)  # how long that takes is not known before
    assert leftover_tokens(path) == set()
    storage.voices.delete(second.id)
    assert leftover_tokens(path) != set()
    storage.voices.purge_expired()
    assert leftover_tokens(path) == set()


def test_other_threads_write_between_tables_that_are_rewritten(
    storage: Storage, path: Path, mark: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, added = storage.voices.add(mark.voice()), threading.Event()
    between: list[bool] = []  # whether the other thread has written when a table was rewritten
    rewrite = erasure._rewrite

    def add() -> None:
        storage.voices.add(mark.voice())
        added.set()

    adding = threading.Thread(target=add)

    def note(connection: Connection, table: Table) -> None:
        if not between:
            adding.start()
        rewrite(connection, table)
        between.append(added.is_set())

    monkeypatch.setattr(erasure, "_REWRITTEN_AT_ONCE", 0.0)
    monkeypatch.setattr(erasure, "_rewrite", note)
    monkeypatch.setattr(time, "sleep", lambda _: added.wait(10))
    storage.voices.delete(record.id)
    adding.join()
    assert between[0] is False, "the other thread waits for the first table"
    assert between[-1] is True
    assert leftover_tokens(path) == set()


def test_deletion_retried_on_a_full_disk_leaves_no_free_page(path: Path, mark: Marker) -> None:
    database = Database.open(path, busy_timeout=1.0)
    tried: list[str] = []
    with closing(database), Storage.open(path) as storage:
        record = storage.history.add(mark.spoken())
        assert record is not None

        def work(session: object) -> None:
            tried.append("once")
            if len(tried) == 1:
                raise DiskFull("The disk is full.")
            session.execute(text("DELETE FROM generations"))  # type: ignore[attr-defined]

        database.delete(work)
        assert leftover_tokens(path) == set()
        with database.read() as session:
            assert session.execute(text("SELECT requested - finished, free_pages FROM erasures")).one() == (0, False)
    assert len(tried) == 2


def test_other_threads_write_while_free_pages_are_overwritten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overwriting all pages of a large deletion takes longer than a writer waits."""
    monkeypatch.setattr(erasure, "_FILLED_AT_ONCE", 1)
    begun, steps, full = threading.Event(), list[str](), list[bool]()

    def trace(connection: Any, _: object) -> None:
        connection.set_trace_callback(note)

    def note(statement: str) -> None:
        if statement.startswith("INSERT INTO zeros"):
            begun.set()
        elif statement.startswith("DROP TABLE zeros"):
            steps.append("overwritten")

    def work(session: Session) -> None:
        if not full:
            full.append(True)
            raise DiskFull("The disk is full.")
        session.execute(text("DROP TABLE large"))

    with closing(Database.open(path, busy_timeout=10.0)) as database, ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            session.execute(text("CREATE TABLE large AS SELECT zeroblob(1 << 20)"))
        event.listen(Engine, "connect", trace)
        try:
            deletion = pool.submit(database.delete, work)
            begun.wait(10)
            with database.write():
                steps.append("written")
            deletion.result()
        finally:
            event.remove(Engine, "connect", trace)
    assert steps == ["written", "overwritten"]


def test_audio_and_transcripts_follow_a_page_of_zeros(storage: Storage, path: Path, mark: Marker) -> None:
    led = {table.name: list(table.columns.keys()) for table in Base.metadata.tables.values() if "lead" in table.columns}
    assert {table: columns[columns.index("lead") + 1 :] for table, columns in led.items()} == {
        "voice_portraits": ["picture"],
        "voice_references": ["transcript", "clip", "object"],
        "generation_audio": ["audio", "object"],
        "script_covers": ["picture"],
        "consent_recordings": ["recording", "object"],
    }
    storage.voices.add(mark.voice())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (LEAD_BYTES,)
        for table, columns in led.items():
            assert [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")] == columns
        assert connection.execute("SELECT lead FROM voice_references").fetchall() == [(bytes(LEAD_BYTES),)]


def test_failed_deletion_of_an_owner_changes_nothing(storage: Storage, path: Path, mark: Marker) -> None:
    storage.voices.add(mark.voice(), owner="ann")
    storage.history.add(mark.spoken(), owner="ann")
    storage.scripts.create("Play", [mark.card()], owner="ann")
    before = state_of(path.parent)
    statements = ["DELETE FROM scripts", "DELETE FROM generations", "DELETE FROM voices", "DELETE FROM voice_uses"]
    for statement in [*statements, "DELETE FROM owner_settings", "UPDATE erasures"]:

        def fail(_: object, __: object, sql: str, *___: object, statement: str = statement) -> None:
            if sql.startswith(statement):
                raise sqlite3.OperationalError("disk I/O error")

        event.listen(Engine, "before_cursor_execute", fail)
        try:
            with pytest.raises((DatabaseUnavailable, sqlite3.OperationalError)):
                storage.delete_owner("ann")
        finally:
            event.remove(Engine, "before_cursor_execute", fail)
        assert state_of(path.parent) == before, statement
    storage.delete_owner("ann")
    left = state_of(path.parent)
    assert len(left.pop("owner_deletions")) == 1, "for takes in progress; without her name"
    assert not any(left.values())


def test_purge_creates_the_reserve_file(storage: Storage, path: Path) -> None:
    reserve = path.with_name(f"{NAME}-reserve")
    assert not reserve.exists()
    storage.voices.purge_expired()
    storage.voices.purge_expired()
    assert reserve.stat().st_size == RESERVE_BYTES
    assert stat.S_IMODE(reserve.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("kind", ["pipe", "pipe as log", "folder", "device", "link to a device"])
def test_special_files_are_rejected_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / NAME
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "pipe as log":
            Storage.open(path).close()
            os.mkfifo(tmp_path / f"{NAME}-wal")
        case "folder":
            path.mkdir()
        case "device":
            path = Path("/dev/null")
        case _:
            path.symlink_to("/dev/zero")
    before = sorted(each.name for each in tmp_path.iterdir())
    with pytest.raises(DatabaseUnavailable, match=r"has to be a file\.") as caught:
        Storage.open(path)
    assert str(path) not in str(caught.value)
    assert str(path) in caught.value.detail
    assert sorted(each.name for each in tmp_path.iterdir()) == before


def test_newer_library_stays_identical(path: Path) -> None:
    Storage.open(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA journal_mode = DELETE")
        newer.execute("UPDATE reprise_version SET version_num = '9999'")
        newer.commit()
    before = path.read_bytes()
    with pytest.raises(DatabaseUnavailable, match="newer version"):
        Storage.open(path)
    assert path.read_bytes() == before


def test_invalid_time_or_settings_in_a_row_raise(storage: Storage, path: Path, mark: Marker) -> None:
    storage.history.add(mark.spoken())
    for column, value in (("settings", "{"), ("created", "yesterday")):
        with closing(sqlite3.connect(path)) as direct, direct:
            direct.execute(f"UPDATE generations SET {column} = ?", (value,))
        with pytest.raises(DatabaseUnavailable, match="is damaged"):
            storage.history.page()


def test_damaged_hearings_are_reported(storage: Storage, path: Path) -> None:
    script = storage.scripts.create("Play", [card("One.")]).id
    (first,) = storage.scripts.cards(script)
    take = storage.scripts.attach(first.id, spoken("One.")).take_id
    assert take is not None
    hearing = Hearing("one", 0.5, ((0, 3),), "fake")
    storage.hearings.keep(first.id, take, hearing)
    assert storage.hearings.of_script(script) == {take: hearing}
    for column, value in (("marks", "[[1"), ("marks", "[1]"), ("marks", "[[0, 1, 2]]"), ("word_error", float("inf"))):
        with closing(sqlite3.connect(path)) as direct, direct:
            direct.execute(f"UPDATE take_hearings SET {column} = ?", (value,))
        with pytest.raises(DatabaseUnavailable, match="is damaged"):
            storage.hearings.of_script(script)
        storage.hearings.keep(first.id, take, hearing)
    for word_error in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="word error rate"):
            Hearing("one", word_error, (), "fake")


def test_errors_contain_no_user_text(path: Path, mark: Marker) -> None:
    with open_voices(path) as library:
        record = library.add(mark.voice())
        database = Database.open(path, busy_timeout=1.0)

        def damage() -> None:
            with database.write() as session:
                row = voices.lock_row(session=session, voice_id=record.id, owner="local")
                row.name, row.name_key = "", "typed by somebody"

        with closing(database), pytest.raises(DatabaseUnavailable) as caught:
            damage()
    errors = f"{caught.value!r} {caught.value.detail} {caught.value.__cause__!r}"
    assert "typed" not in errors
