"""Concurrent threads, and several libraries open on one database, as in several processes."""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from engine.voice import BuiltInVoice, Voice
from storage import Storage, VoiceLibrary
from storage.database import Database
from storage.errors import DatabaseUnavailable, NameTaken, OwnerDeleted, VoiceNotFound
from storage.models import FavouriteRow, FavouriteSpeakerRow
from storage.object_store import StoredSound
from storage.pronunciations import Pronunciation
from storage.repositories import owner_deletions, takes, trash
from storage.repositories.voices import voices
from storage.repositories.voices.voices import VoiceRecord
from storage.sqlite import erasure
from tests.paths import ROOT
from tests.storage.making import (
    count_rows,
    inserts_together,
    lock_awaited,
    open_voices,
    recoded,
    run_concurrently,
    voice,
)
from tests.storage.speaking import card, spoken


def test_concurrent_threads_save_read_and_delete(library: VoiceLibrary) -> None:
    def save_rename_and_load(number: int) -> VoiceRecord:
        doomed = library.add(voice(f"Doomed {number}", seed=number, references=1))
        record = library.add(voice(f"Voice {number}", seed=number))
        library.delete(doomed.id)
        assert record in library.list()
        record = library.rename(record.id, f"Renamed {number}")
        assert library.load(record.id).references == voice(f"Voice {number}", seed=number).references
        return record

    records = run_concurrently([partial(save_rename_and_load, number) for number in range(8)])
    assert library.list() == sorted(records, key=lambda record: record.name)


def test_only_one_concurrent_save_takes_a_name(library: VoiceLibrary, url: str) -> None:
    def save(name: str) -> str | None:
        try:
            return library.add(voice(name)).name
        except NameTaken:
            return None

    got = run_concurrently([partial(save, name) for name in ("Ada", "ADA", "ada", "aDa", "adA", "AdA")])
    assert [record.name for record in library.list()] == [name for name in got if name]
    assert count_rows(url, "reference_codes") == 2


def test_concurrent_threads_share_one_reencoding(library: VoiceLibrary, url: str) -> None:
    record = library.add(voice())
    originals: list[Voice] = []

    def reencode(original: Voice) -> Voice:
        originals.append(original)
        return recoded(original, "codec-b", seed=len(originals))

    made = run_concurrently([lambda: library.ready(record.id, "codec-b", reencode)] * 8)
    assert len(originals) == 1
    assert made == [made[0]] * 8
    assert count_rows(url, "reference_codes") == 4


def test_concurrent_reencodings_in_two_libraries_agree_on_one_result(url: str) -> None:
    """Both have encoded the voice, with different codes, before either stores them."""
    both = threading.Barrier(2)

    def serve(library: VoiceLibrary, seed: int) -> Voice:
        def reencode(original: Voice) -> Voice:
            both.wait()
            return recoded(original, "codec-b", seed=seed)

        return library.ready(record.id, "codec-b", reencode)

    with open_voices(url) as one, open_voices(url) as other:
        record = one.add(voice())
        first, second = run_concurrently([lambda: serve(one, 1), lambda: serve(other, 2)])
        assert first == second == one.ready(record.id, "codec-b", lambda _: recoded(voice(), "codec-b", seed=3))
    assert count_rows(url, "reference_codes") == 4


def test_concurrent_marks_and_settings_are_stored_once(postgresql: str, postgresql_database: Database) -> None:
    storage = Storage(postgresql_database)
    saved = storage.voices.add(voice()).id
    for voice_id, table in ((saved, FavouriteRow), (BuiltInVoice("ryan").id, FavouriteSpeakerRow)):
        with inserts_together(table.__tablename__, 2):
            run_concurrently([partial(storage.favourites.mark, voice_id)] * 2)
        assert count_rows(postgresql, table.__tablename__) == 1
    with inserts_together("server_settings", 2):
        run_concurrently([partial(storage.settings.put, "model", value) for value in ("one", "two")])
    assert storage.settings.get("model") in ("one", "two")


def test_concurrent_pronunciations_of_a_word_are_stored_once(postgresql: str, postgresql_database: Database) -> None:
    """Given in different orders, they wait for each other, and for a deletion of all data."""
    words = Storage(postgresql_database).pronunciations
    entries = [Pronunciation("GIF", "jif"), Pronunciation("SQL", "sequel")]
    with ThreadPoolExecutor(2) as pool:
        with postgresql_database.write() as session:
            owner_deletions.add(session=session, owner="local", now=datetime.now(UTC))
            puts = [pool.submit(words.put, given) for given in (entries, entries[::-1])]
            assert all(lock_awaited(postgresql, put) for put in puts)
        for put in puts:
            put.result()
    assert words.list() == entries
    words.put([Pronunciation("SQL", "S Q L"), Pronunciation("SQL", "squel", match_case=True)])
    assert words.list() == [entries[0], Pronunciation("SQL", "squel", match_case=True)]
    assert count_rows(postgresql, "pronunciations") == 2


def test_put_setting_replaces_the_value(database: Database) -> None:
    settings = Storage(database).settings
    for value in ("one", "two"):
        settings.put("model", value)
        assert settings.get("model") == value


def test_marking_a_voice_that_is_being_deleted(postgresql: str, postgresql_database: Database) -> None:
    storage = Storage(postgresql_database)
    doomed = storage.voices.add(voice()).id
    with ThreadPoolExecutor(1) as pool:
        with postgresql_database.write() as session:
            voices.remove(session=session, voice_id=doomed, owner="local")
            session.flush()
            marking = pool.submit(storage.favourites.mark, doomed)
            assert lock_awaited(postgresql, marking)
        with pytest.raises(VoiceNotFound):
            marking.result()


@pytest.mark.parametrize("method", ["duplicate", "restore"])
def test_concurrent_calls_find_different_free_names(
    postgresql: str, postgresql_database: Database, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    library, free_name = VoiceLibrary(postgresql_database), trash.free_name
    call = getattr(library, method)
    chosen = [library.add(voice()).id] * 2
    if method == "restore":
        library.trash(chosen[0])
        chosen[1] = library.add(voice()).id
        library.trash(chosen[1])
    with ThreadPoolExecutor(1) as pool:
        others: list[Future[VoiceRecord]] = []

        def before_another_call(**given: Any) -> str:
            name = free_name(**given)
            if not others:
                others.append(pool.submit(call, chosen[1]))
                lock_awaited(postgresql, others[0])
            return name

        monkeypatch.setattr(trash, "free_name", before_another_call)
        made = [call(chosen[0]), others[0].result()]
    assert {record.name for record in made} == ({"Ada 2", "Ada 3"} if method == "duplicate" else {"Ada", "Ada 2"})


@pytest.mark.parametrize("method", ["duplicate", "restore"])
def test_voice_renamed_to_the_name_that_a_copy_has_found(
    postgresql: str, postgresql_database: Database, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    library, free_name = VoiceLibrary(postgresql_database), trash.free_name
    first, other = library.add(voice()).id, library.add(voice("Ben")).id
    if method == "restore":
        library.trash(first)
        library.add(voice())
    with ThreadPoolExecutor(1) as pool:
        renames: list[Future[VoiceRecord]] = []

        def before_the_rename(**given: Any) -> str:
            name = free_name(**given)
            renames.append(pool.submit(library.rename, other, name))
            lock_awaited(postgresql, renames[0])
            return name

        monkeypatch.setattr(trash, "free_name", before_the_rename)
        assert getattr(library, method)(first).name == "Ada 2"
        with pytest.raises(NameTaken):
            renames[0].result()


def test_history_switched_off_while_a_take_is_stored(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sounds = tmp_path / "sounds"
    with closing(Database.open(url, busy_timeout=1.0, audio_store=sounds)) as database:
        storage, storing = Storage(database), database.storing

        def after_the_switch(takes: Sequence[bytes]) -> AbstractContextManager[list[StoredSound]]:
            storage.history.change_settings(history=False)
            return storing(takes)

        monkeypatch.setattr(database, "storing", after_the_switch)
        assert storage.history.add(spoken()) is None
        assert storage.history.page().total == 0
    assert not [path for path in sounds.rglob("*") if path.is_file()], "nor is its sound left in the store"


def test_take_stored_while_all_data_is_deleted(postgresql: str, postgresql_database: Database) -> None:
    storage = Storage(postgresql_database)
    began = storage.deletion_token()
    with ThreadPoolExecutor(1) as pool:
        with postgresql_database.write() as session:
            owner_deletions.add(session=session, owner="local", now=datetime.now(UTC))
            storing = pool.submit(storage.history.add, spoken(), deletion_token=began)
            assert lock_awaited(postgresql, storing)
        with pytest.raises(OwnerDeleted):
            storing.result()
    assert storage.history.add(spoken(), deletion_token=storage.deletion_token())


def add_spoken_card(storage: Storage) -> tuple[str, str]:
    """Create a script of one spoken card. Return the ids of the card and of its take."""
    (added,) = storage.scripts.cards(storage.scripts.create("Play", [card("Hello.")]).id)
    take = storage.scripts.attach(added.id, spoken()).take_id
    assert take is not None
    return added.id, take


def test_take_of_a_card_deleted_while_all_data_is_deleted(
    postgresql: str, postgresql_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lock the take before its place on the card."""
    storage, remove_all = Storage(postgresql_database), takes.remove_all
    _, doomed = add_spoken_card(storage)
    with ThreadPoolExecutor(1) as pool:
        others: list[Future[None]] = []

        def after_another_deletion(**given: Any) -> int:
            given["session"].flush()
            others.append(pool.submit(storage.history.delete, doomed))
            lock_awaited(postgresql, others[0])
            return remove_all(**given)

        monkeypatch.setattr(takes, "remove_all", after_another_deletion)
        storage.delete_owner("local")
        others[0].result()
    assert storage.owner_counts().empty


def test_take_withdrawn_while_its_card_is_deleted(
    postgresql: str, postgresql_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, delete_of_cards = Storage(postgresql_database), takes.delete_of_cards
    card_id, doomed = add_spoken_card(storage)
    with ThreadPoolExecutor(1) as pool:
        others: list[Future[None]] = []

        def before_it_is_withdrawn(**given: Any) -> None:
            delete_of_cards(**given)
            others.append(pool.submit(storage.history.withdraw, doomed))
            lock_awaited(postgresql, others[0])

        monkeypatch.setattr(takes, "delete_of_cards", before_it_is_withdrawn)
        storage.scripts.delete_card(card_id)
        others[0].result()
    assert count_rows(postgresql, "generations") == 0  # neither the history nor the card has it


def waiting_for_each_other() -> tuple[Callable[[Session], None], Callable[[Session], None]]:
    """Two pieces of work, each of which locks what the other one locks first. The first of their calls meet."""
    both_hold = threading.Barrier(2, timeout=30)

    def locking(first: str, second: str) -> Callable[[Session], None]:
        calls = count(1)

        def work(session: Session) -> None:
            owner_deletions.lock(session=session, owner=first)
            if next(calls) == 1:
                both_hold.wait()
            owner_deletions.lock(session=session, owner=second)

        return work

    return locking("ann", "bob"), locking("bob", "ann")


def test_deadlock_is_not_an_unreachable_server(postgresql_database: Database) -> None:
    def write(work: Callable[[Session], None]) -> None:
        with postgresql_database.write() as session:
            work(session)

    calls = [partial(write, work) for work in waiting_for_each_other()]
    with pytest.raises(DatabaseUnavailable, match="another program is using it"):
        run_concurrently(calls)


def test_deletions_that_wait_for_each_other_are_both_done(postgresql_database: Database) -> None:
    """The server ends one of them, which is then done again."""
    run_concurrently([partial(postgresql_database.delete, work) for work in waiting_for_each_other()])


def test_script_made_while_all_data_is_deleted_stays_whole(postgresql: str, postgresql_database: Database) -> None:
    storage = Storage(postgresql_database)
    with ThreadPoolExecutor(1) as pool:
        with postgresql_database.write() as session:
            owner_deletions.add(session=session, owner="local", now=datetime.now(UTC))
            making = pool.submit(storage.scripts.create, "Play", [card("Hello.")])
            assert lock_awaited(postgresql, making)
        assert making.result().cards == 1


def test_violated_constraint_is_not_an_unreachable_server(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable, match="the database reports an error"), database.write() as session:
        session.add(FavouriteRow(owner="local", voice_id="f" * 32))


def test_reader_sees_a_consistent_snapshot_of_a_voice(url: str) -> None:
    """Even if the voice is deleted between the reader's queries."""
    database = Database.open(url, busy_timeout=1.0)
    with closing(database), open_voices(url, busy_timeout=0.05) as other:
        kept = other.add(voice())
        with database.read() as session:
            record = voices.record(session=session, voice_id=kept.id, owner="local")
            other.delete(kept.id)
            assert voices.load(session=session, record=record, codec_fingerprint="codec-a") == voice()
        assert other.list() == []


def test_concurrent_opening_of_an_empty_database(empty_url: str) -> None:
    storages = run_concurrently([lambda: Storage.open(empty_url)] * 6)
    for number, storage in enumerate(storages):
        storage.voices.add(voice(f"Voice {number}"))
    assert [len(storage.voices.list()) for storage in storages] == [6] * 6
    for storage in storages:
        storage.close()


def test_library_opened_twice_in_a_process_stays_locked(tmp_path: Path) -> None:
    """A process that closes any descriptor of a file loses its locks on it; another one would then delete the log."""
    path = tmp_path / "voices.sqlite"
    script = f"from storage import Storage; print(len(Storage.open({str(path)!r}).voices.list()))"

    def count_elsewhere() -> int:
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
        return int(done.stdout)

    with open_voices(path) as library:
        library.add(voice("Ada"))
        with open_voices(path):
            pass
        assert count_elsewhere() == 1
        library.add(voice("Ben"))
        assert count_elsewhere() == 2


def test_log_is_not_emptied_while_another_thread_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite before 3.51.3 can lose what is committed meanwhile (https://sqlite.org/wal.html#walresetbug)."""
    monkeypatch.setattr(erasure, "READERS_TIMEOUT", 0.05)
    statements: list[str] = []

    def trace(connection: Any, _: object) -> None:
        connection.set_trace_callback(statements.append)

    path = tmp_path / "voices.sqlite"
    with closing(Database.open(path, busy_timeout=0.05)) as database, ThreadPoolExecutor(1) as pool:
        database.delete(lambda session: None, now=False)
        event.listen(Engine, "connect", trace)
        try:
            with database.write():
                pool.submit(database.maintain).result()
            assert not [each for each in statements if "wal_checkpoint" in each]
            database.maintain()
            assert [each for each in statements if "wal_checkpoint" in each]
        finally:
            event.remove(Engine, "connect", trace)
