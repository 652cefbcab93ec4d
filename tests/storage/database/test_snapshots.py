"""Library snapshots, for machines that lose their disk."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from storage import Storage, durable_files
from storage.errors import DatabaseUnavailable
from storage.sqlite import snapshots as snapshots_module
from storage.sqlite.connection import LOG_FILES, PAGE_SIZE
from storage.sqlite.snapshots import LibrarySnapshots
from tests.storage.making import voice


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


def test_library_is_restored_on_a_new_disk(tmp_path: Path, bucket: Path) -> None:
    first, second = tmp_path / "one" / "voices.db", tmp_path / "two" / "voices.db"
    snapshots = LibrarySnapshots(first, bucket)
    assert not snapshots.restore()
    with Storage.open(first) as storage:
        saved = storage.voices.add(voice())
        assert snapshots.save()
        assert not snapshots.save()  # nothing has changed
        storage.voices.rename(saved.id, "Bea")  # in the log only
        assert snapshots.save()
    assert len(list(bucket.iterdir())) == 1
    later = LibrarySnapshots(second, bucket)
    assert later.restore()
    assert not later.restore()  # the existing database is newer
    with Storage.open(second) as storage:
        assert storage.voices.load(saved.id).references == voice().references
        assert storage.voices.get(saved.id).name == "Bea"


def test_snapshot_is_on_the_disk_before_the_last_one_is_deleted(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str]] = []  # the names in the bucket at each sync of a file or folder in it
    sync = os.fsync

    def record_sync(descriptor: int) -> None:
        synced.append(sorted(path.name for path in bucket.iterdir()))
        sync(descriptor)

    with Storage.open(tmp_path / "voices.db") as storage:
        snapshots = LibrarySnapshots(tmp_path / "voices.db", bucket)
        assert snapshots.save()
        (last,) = bucket.iterdir()
        storage.voices.add(voice())
        monkeypatch.setattr(os, "fsync", record_sync)
        assert snapshots.save()
    (new,) = bucket.iterdir()
    assert synced == [[last.name, f"{new.name}.new"], [last.name, new.name]]


@pytest.mark.parametrize("later", [0, -(10**18)])
def test_snapshot_at_the_same_or_an_earlier_time_is_the_latest(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """The clock is set back, and the process ends before it deletes the last snapshot."""
    times = iter([1_800_000_000 * 10**9 + each for each in (0, later, later)])
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    path, new = tmp_path / "voices.db", tmp_path / "new.db"
    with Storage.open(path) as storage:
        snapshots = LibrarySnapshots(path, bucket)
        assert snapshots.save()
        for name in ("Ada", "Bea"):
            (before,) = bucket.iterdir()
            left = before.read_bytes()
            storage.voices.add(voice(name))
            assert snapshots.save()
            (kept,) = bucket.iterdir()
            assert kept != before
        before.write_bytes(left)
    assert LibrarySnapshots(new, bucket).restore()
    with Storage.open(new) as storage:
        assert [saved.name for saved in storage.voices.list()] == ["Ada", "Bea"]


def test_turn_of_another_process_is_not_awaited_for_ever(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hang while it copies to a folder in a network."""
    monkeypatch.setattr(snapshots_module, "LONGEST_TURN", 0.0)
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with Storage.open(tmp_path / "voices.db"):
            saved = LibrarySnapshots(tmp_path / "voices.db", bucket)
            for call in (saved.check, saved.save):
                with pytest.raises(DatabaseUnavailable, match="another program"):
                    call()
            fcntl.flock(other, fcntl.LOCK_UN)
            assert saved.save()
    finally:
        os.close(other)


def test_empty_file_is_no_library(tmp_path: Path, bucket: Path) -> None:
    """A process that ends before it creates the tables leaves one."""
    first, second = tmp_path / "one.db", tmp_path / "two.db"
    with Storage.open(first) as storage:
        saved = storage.voices.add(voice())
    LibrarySnapshots(first, bucket).save()
    second.touch()
    assert LibrarySnapshots(second, bucket).restore()
    with Storage.open(second) as storage:
        assert storage.voices.get(saved.id).name == saved.name


def test_deleted_voice_leaves_the_bucket(tmp_path: Path, bucket: Path) -> None:
    snapshots = LibrarySnapshots(tmp_path / "voices.db", bucket)
    with Storage.open(tmp_path / "voices.db") as storage:
        saved = storage.voices.add(voice())
        snapshots.save()
        (first,) = bucket.iterdir()
        first.with_name("library-1.new").write_bytes(first.read_bytes())  # of a process that ended while copying
        storage.voices.delete(saved.id)
        snapshots.save()
    (kept,) = bucket.iterdir()
    assert voice().references[0].clip[-64:] not in kept.read_bytes()


def test_damaged_snapshot_is_skipped_and_never_overwritten(tmp_path: Path, bucket: Path) -> None:
    path = tmp_path / "voices.db"
    with Storage.open(path) as storage:
        storage.voices.add(voice())
        LibrarySnapshots(path, bucket).save()
    (whole,) = bucket.iterdir()
    cut = bucket / "library-99999999999999999999.sqlite"
    cut.write_bytes(whole.read_bytes()[:9000])
    new = tmp_path / "new" / "voices.db"
    assert LibrarySnapshots(new, bucket).restore()
    whole.unlink()
    with pytest.raises(DatabaseUnavailable, match="damaged"):
        LibrarySnapshots(tmp_path / "other" / "voices.db", bucket).restore()
    assert cut.exists()


def test_log_of_a_lost_library_is_not_replayed_into_a_restored_one(tmp_path: Path, bucket: Path) -> None:
    path = tmp_path / "voices.db"
    logs = [path.with_name(path.name + suffix) for suffix in LOG_FILES]
    with Storage.open(path) as storage:
        storage.voices.add(voice())
        leftover = logs[0].read_bytes()
        for number in range(8):
            storage.voices.add(voice(f"Voice {number}", seed=number))
        saved = storage.voices.list()
        LibrarySnapshots(path, bucket).save()
    path.unlink()
    for log in logs:
        log.write_bytes(leftover)
    assert LibrarySnapshots(path, bucket).restore()
    assert not any(log.exists() for log in logs)
    with Storage.open(path) as storage:
        assert storage.voices.list() == saved


def test_damaged_library_replaces_no_snapshot(tmp_path: Path, bucket: Path) -> None:
    path = tmp_path / "voices.db"
    with Storage.open(path) as storage:
        storage.voices.add(voice())
    LibrarySnapshots(path, bucket).save()
    (kept,) = bucket.iterdir()
    whole = kept.read_bytes()
    spoiled = bytearray(path.read_bytes())
    spoiled[PAGE_SIZE + 8 :] = b"\xa5" * (len(spoiled) - PAGE_SIZE - 8)
    for damaged in (spoiled, spoiled[:-1], b"no database" * PAGE_SIZE):
        path.write_bytes(damaged)
        with pytest.raises(DatabaseUnavailable, match="damaged"):
            LibrarySnapshots(path, bucket).save()
        assert [each.read_bytes() for each in bucket.iterdir()] == [whole]


def test_snapshot_of_another_library_is_kept(tmp_path: Path, bucket: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A command has made an empty library in the place of a lost one, or the disk with the snapshot was missing."""
    path = tmp_path / "voices.db"
    with Storage.open(path) as storage:
        storage.voices.secret("signing")
        storage.voices.add(voice())
        first = LibrarySnapshots(path, bucket)
        assert first.save()
        storage.voices.add(voice("Bea"))
        first.check()
        LibrarySnapshots(path, bucket).check()
        assert LibrarySnapshots(path, bucket).save(), "another process of this library"
    (kept,) = bucket.iterdir()
    for file in tmp_path.glob("voices.db*"):
        file.unlink()
    with Storage.open(path) as storage:
        for _ in range(2):  # without and with secrets of its own
            snapshots = LibrarySnapshots(path, bucket)
            with pytest.raises(
                DatabaseUnavailable, match=r"a snapshot of another library, which is kept\. To restore that one"
            ):
                snapshots.check()
            assert not snapshots.save()
            assert "a snapshot of another library" in caplog.text
            assert list(bucket.iterdir()) == [kept]
            storage.voices.secret("signing")
    for file in tmp_path.glob("voices.db*"):
        file.unlink()
    later = LibrarySnapshots(path, bucket)
    assert later.restore()
    later.check()


def test_processes_of_a_library_take_turns(tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[bool] = []
    flock, copy, write = fcntl.flock, durable_files.copy, durable_files.write

    def note_turn() -> None:
        """Note whether another process would have to wait."""
        folder = os.open(tmp_path, os.O_RDONLY)
        try:
            flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            turns.append(True)
        else:
            turns.append(False)
        finally:
            os.close(folder)

    def copy_in_turn(source: Path, path: Path) -> None:
        note_turn()
        copy(source, path)

    def write_in_turn(path: Path, data: bytes) -> None:
        note_turn()
        write(path, data)

    monkeypatch.setattr(durable_files, "copy", copy_in_turn)
    monkeypatch.setattr(durable_files, "write", write_in_turn)
    with Storage.open(tmp_path / "voices.db"):
        snapshots = LibrarySnapshots(tmp_path / "voices.db", bucket)
        snapshots.check()
        assert snapshots.save()
    assert LibrarySnapshots(tmp_path / "restored.db", bucket).restore()
    assert turns == [True] * 3


def test_forked_process_does_not_keep_the_turn(tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the open folder, and the lock is that of the open folder."""
    flock, inherited = fcntl.flock, list[int]()

    def lock_and_fork(folder: int, operation: int) -> None:
        flock(folder, operation)
        if operation & fcntl.LOCK_EX:
            inherited.append(os.dup(folder))

    with Storage.open(tmp_path / "voices.db"), monkeypatch.context() as forking:
        forking.setattr(fcntl, "flock", lock_and_fork)
        LibrarySnapshots(tmp_path / "voices.db", bucket).check()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for each in (folder, *inherited):
            os.close(each)


def test_library_is_restored_by_one_process(tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "one" / "voices.db", tmp_path / "two" / "voices.db"
    with Storage.open(first) as storage:
        saved = storage.voices.add(voice())
        LibrarySnapshots(first, bucket).save()
    flock = fcntl.flock

    def be_second(folder: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        assert LibrarySnapshots(second, bucket).restore()
        with Storage.open(second) as storage:
            storage.voices.rename(saved.id, "Bea")
        flock(folder, operation)

    monkeypatch.setattr(fcntl, "flock", be_second)
    assert not LibrarySnapshots(second, bucket).restore()
    with Storage.open(second) as storage:
        assert storage.voices.get(saved.id).name == "Bea"


def test_copies_of_killed_processes_are_deleted(tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a snapshot is saved, a folder for temporary files has a copy of the library, with what is deleted later."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    path = tmp_path / "voices.db"
    left: list[Path] = []
    copy = durable_files.copy

    def copy_and_keep(source: Path, target: Path) -> None:
        copy(source, target)
        left.append(source.parent.with_name(source.parent.name + "-left"))
        shutil.copytree(source.parent, left[0])  # as a process that is killed now leaves it

    with Storage.open(path) as storage:
        storage.voices.add(voice())
        with monkeypatch.context() as killed:
            killed.setattr(durable_files, "copy", copy_and_keep)
            LibrarySnapshots(path, bucket).save()
        assert list(folder.iterdir()) == left
        other = tmp_path / "other.db"
        with Storage.open(other):
            LibrarySnapshots(other, tmp_path / "others").save()
        assert list(folder.iterdir()) == left, "perhaps of a running process"
        LibrarySnapshots(path, bucket).save()
    assert list(folder.iterdir()) == []


def test_library_behind_a_link_is_saved_and_restored(tmp_path: Path, bucket: Path) -> None:
    """SQLite's log, which has the latest changes, is beside the file."""
    disk, link = tmp_path / "disk", tmp_path / "voices.db"
    disk.mkdir()
    link.symlink_to(disk / "library.db")
    Storage.open(disk / "library.db").close()
    with Storage.open(link) as storage:
        snapshots = LibrarySnapshots(link, bucket)
        assert snapshots.save()
        saved = storage.voices.add(voice())
        assert snapshots.save()
    shutil.rmtree(disk)
    assert LibrarySnapshots(link, bucket).restore()
    with Storage.open(link) as storage:
        assert storage.voices.get(saved.id).name == saved.name
    assert link.is_symlink()


def test_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable, match=r"A snapshot of .* could not be saved in .*/kept\."):
        LibrarySnapshots(tmp_path / "voices.db", tmp_path / "file" / "kept").check()


def test_snapshots_are_for_their_owner_alone(tmp_path: Path, bucket: Path) -> None:
    with Storage.open(tmp_path / "voices.db"):
        LibrarySnapshots(tmp_path / "voices.db", bucket).save()
    (kept,) = bucket.iterdir()
    assert (kept.stat().st_mode & 0o777, bucket.stat().st_mode & 0o777) == (0o600, 0o700)
