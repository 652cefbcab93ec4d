"""Audio objects outside the database: in a folder and in an S3-compatible store."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import fsspec
import pytest
from sqlalchemy import Engine, event
from sqlalchemy.pool import PoolProxiedConnection

from storage import Storage, durable_files
from storage.database import Database
from storage.errors import DatabaseUnavailable, DiskFull, NameTaken, VoiceNotFound
from storage.object_store import ObjectStore
from storage.repositories import stored_objects
from tests.storage.making import clip, count_rows, voice
from tests.storage.speaking import FLAC, card, spoken


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A bucket on moto's server."""
    moto = pytest.importorskip("moto.server", reason="moto, which plays an S3-compatible store, is not installed")
    pytest.importorskip("s3fs")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        environment.setenv("AWS_ACCESS_KEY_ID", "ada")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for proxy in ("http_proxy", "HTTP_PROXY", "AWS_CA_BUNDLE"):
            environment.delenv(proxy, raising=False)
        fsspec.filesystem("s3").mkdir("sounds")
        yield "s3://sounds/reprise"
        fsspec.filesystem("s3").clear_instance_cache()
    server.stop()


@pytest.fixture
def s3_requests(s3: str) -> Iterator[list[tuple[str, str, set[str]]]]:
    """The requests to a server that takes everything: method, path and names of headers."""
    received: list[tuple[str, str, set[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # which has the answer that a client waits for before it sends an object

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            received.append((self.command, self.path, {name.lower() for name in self.headers}))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PUT

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, pytest.MonkeyPatch.context() as environment:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        fsspec.filesystem("s3").clear_instance_cache()
        yield received
        fsspec.filesystem("s3").clear_instance_cache()
        server.shutdown()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "sounds")
    url = str(request.getfixturevalue("s3"))
    files, folder = fsspec.url_to_fs(url)
    if files.exists(folder):
        files.rm(folder, recursive=True)
    return url


def objects(place: str) -> list[bytes]:
    files, folder = fsspec.url_to_fs(place)
    files.invalidate_cache()
    return [files.cat_file(name) for name in files.find(folder)] if files.exists(folder) else []


def test_an_object_is_one_request_without_checksum(s3: str, s3_requests: list[tuple[str, str, set[str]]]) -> None:
    """Some S3-compatible stores refuse botocore's checksums; keys to one bucket may neither see nor create buckets."""
    ObjectStore(s3).write("abc", b"sound")
    [(method, path, headers)] = s3_requests
    assert (method, path) == ("PUT", "/sounds/reprise/ab/abc")
    assert not [name for name in headers if "checksum" in name or name == "x-amz-trailer"]


@pytest.mark.parametrize(("url", "place"), [("sqlite", "s3"), ("postgresql", "folder")], indirect=True)
def test_audio_is_written_to_and_read_from_the_store(url: str, place: str) -> None:
    with Storage.open(url, audio_store=place) as storage:
        saved = storage.voices.add(voice())
        copy = storage.voices.duplicate(saved.id)
        made = storage.history.add(spoken())
        consent = storage.consents.add("Ada", "en", b"I agree.")
        script = storage.scripts.create("Play", [card("Hello.")])
        (first,) = storage.scripts.cards(script.id)
        storage.scripts.attach(first.id, spoken())
        assert made is not None
        storage.check_store()
        assert sorted(objects(place)) == sorted([*[clip(0), clip(1)] * 2, FLAC, FLAC, b"I agree."])
    with Storage.open(url, audio_store=place) as storage:
        assert storage.voices.load(saved.id) == voice()
        assert storage.voices.load(copy.id).references == voice().references
        assert storage.history.audio(made.id) == FLAC
        assert storage.consents.recording(consent.id) == b"I agree."
        assert [sound for _, sound in storage.scripts.sounds(storage.scripts.cards(script.id))] == [FLAC]
        assert storage.storage_use().voices > 2 * len(clip(0) + clip(1)) + len(b"I agree.")
        storage.delete_owner("local")
        assert objects(place) == []
    assert count_rows(url, "stored_objects") == 0


def test_full_store_does_not_keep_a_server_from_starting(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can still be read and deleted from."""
    with Storage.open(url, audio_store=tmp_path / "sounds") as storage:
        monkeypatch.setattr(durable_files, "_sync", failing(errno.ENOSPC))
        storage.check_store()
        assert [path for path in (tmp_path / "sounds").rglob("*") if path.is_file()] == []
        monkeypatch.setattr(durable_files, "_sync", failing(errno.EROFS))
        with pytest.raises(DatabaseUnavailable):
            storage.check_store()


def failing(number: int) -> Callable[[int], None]:
    """Return a function that raises the system's error of this number."""

    def fail(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_rejected_or_deleted_voices_leave_no_objects(url: str, tmp_path: Path) -> None:
    place = str(tmp_path / "sounds")
    with Storage.open(url, audio_store=place) as storage:
        kept = storage.voices.add(voice())
        with pytest.raises(NameTaken):
            storage.voices.add(voice())
        assert len(objects(place)) == 2
        assert kept.has_clips
        with pytest.raises(VoiceNotFound):
            storage.voices.replace_clips(kept, voice(references=1), owner="somebody")
        assert len(objects(place)) == 2
        kept = storage.voices.replace_clips(kept, voice(seed=5))
        assert len(objects(place)) == 4
        storage.voices.purge_expired()
        assert len(objects(place)) == 2
        assert storage.voices.load(kept.id).references == voice(seed=5).references
        storage.voices.trash(kept.id)
        assert len(objects(place)) == 2
        storage.voices.empty_trash()
    assert objects(place) == []


def test_interruption_after_the_commit_keeps_the_objects(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Storage.open(url, audio_store=tmp_path / "sounds") as storage:
        dialect = storage._database._engine.dialect
        commit, commits = dialect.do_commit, count(1)

        def interrupted(connection: PoolProxiedConnection) -> None:
            commit(connection)
            if next(commits) == 2:  # the first one notes the objects, the second one stores the voice
                raise KeyboardInterrupt

        monkeypatch.setattr(dialect, "do_commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            storage.voices.add(voice())
        assert storage.voices.load(storage.voices.find("Ada").id) == voice()


def test_audio_in_the_database_stays_readable_with_a_store(url: str, tmp_path: Path) -> None:
    with Storage.open(url) as storage:
        before = storage.voices.add(voice("Ada"))
    with Storage.open(url, audio_store=tmp_path / "sounds") as storage:
        after = storage.voices.add(voice("Bea"))
        assert storage.voices.load(before.id).references[0].clip == clip(0)
    with Storage.open(url) as storage, pytest.raises(DatabaseUnavailable, match="--sounds"):
        storage.voices.load(after.id)


def test_maintenance_deletes_objects_without_rows(url: str, tmp_path: Path) -> None:
    place = tmp_path / "sounds"
    database = Database.open(url, busy_timeout=1.0, audio_store=place)
    with closing(database):
        for name, age in (("a" * 32, timedelta(hours=2)), ("b" * 32, timedelta(0))):
            with database.write() as session:
                stored_objects.note(session=session, names=[name], now=datetime.now(UTC) - age)
            ObjectStore(place).write(name, b"sound")
        database.maintain()
    assert [path.name for path in place.rglob("*") if path.is_file()] == ["b" * 32]


def test_sound_that_was_taken_for_unused_is_not_stored(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an hour's sleep between the note of its object and its row."""
    place = tmp_path / "sounds"
    write = ObjectStore.write
    with Storage.open(url, audio_store=place) as storage:

        def write_late(store: ObjectStore, name: str, data: bytes) -> None:
            with monkeypatch.context() as asleep:
                asleep.setattr("storage.database.WRITING", timedelta(0))
                storage.voices.purge_expired()
            write(store, name, data)

        monkeypatch.setattr(ObjectStore, "write", write_late)
        with pytest.raises(DatabaseUnavailable, match="store of sounds"):
            storage.history.add(spoken())
        assert storage.history.page().total == 0
    assert objects(str(place)) == []


def test_sound_is_not_stored_while_its_object_is_deleted_as_unused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a sleep of more than an hour, if the row is stored between the search for unused objects and the end."""
    place = tmp_path / "sounds"
    delete_all = ObjectStore.delete_all
    with closing(Database.open(url, busy_timeout=1.0, audio_store=place)) as database:

        def delete_late(store: ObjectStore, names: Sequence[str]) -> list[str]:
            with pytest.raises(DatabaseUnavailable, match="store of sounds"), database.write() as session:
                stored_objects.keep(session=session, sounds=[sound])
            return delete_all(store, names)

        monkeypatch.setattr("storage.database.WRITING", timedelta(0))
        monkeypatch.setattr(ObjectStore, "delete_all", delete_late)
        with database.storing([FLAC]) as (sound,):
            database.maintain()
    assert objects(str(place)) == []
    assert count_rows(url, "stored_objects") == 0


def test_unused_objects_are_deleted_if_nothing_can_be_written(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, a deletion uses reserved space, and the object's space is needed."""

    def refuse(**_given: object) -> None:
        raise DiskFull("database.full")

    place = tmp_path / "sounds"
    with Storage.open(url, audio_store=place) as storage:
        made = storage.history.add(spoken())
        assert made is not None
        monkeypatch.setattr(stored_objects, "give_up", refuse)
        storage.history.delete(made.id)
    assert objects(str(place)) == []


def note_unused(database: Database, names: Sequence[str]) -> None:
    with database.write() as session:
        stored_objects.note(session=session, names=names, now=datetime.now(UTC) - timedelta(hours=2))


def test_object_that_cannot_be_deleted_does_not_keep_the_others(url: str, tmp_path: Path) -> None:
    place = tmp_path / "sounds"
    stuck, names = "0" * 32, [f"{number:032x}" for number in range(1, 4)]
    with closing(Database.open(url, busy_timeout=1.0, audio_store=place)) as database:
        note_unused(database, [stuck, *names])
        (place / stuck[:2] / stuck / "file").mkdir(parents=True)  # a folder in place of the object
        for name in names:
            ObjectStore(place).write(name, b"sound")
        database.maintain()
        assert [path for path in place.rglob("*") if path.is_file()] == []
        assert count_rows(url, "stored_objects") == 1
        shutil.rmtree(place / stuck[:2])
        database.maintain()
    assert count_rows(url, "stored_objects") == 0


def test_many_objects_are_forgotten_in_batches(url: str, tmp_path: Path) -> None:
    sizes: list[int] = []

    def measure(_connection: object, _cursor: object, statement: str, values: Sequence[object], *_: object) -> None:
        if statement.startswith("DELETE FROM stored_objects"):
            sizes.append(len(values))

    with closing(Database.open(url, busy_timeout=1.0, audio_store=tmp_path / "sounds")) as database:
        note_unused(database, [f"{number:032x}" for number in range(1_100)])
        event.listen(Engine, "before_cursor_execute", measure)
        try:
            database.maintain()
        finally:
            event.remove(Engine, "before_cursor_execute", measure)
    assert sizes == [500, 500, 100]
    assert count_rows(url, "stored_objects") == 0


def test_unavailable_store_is_left_after_a_few_failures(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "sounds"
    with closing(Database.open(url, busy_timeout=1.0, audio_store=place)) as database:
        note_unused(database, [f"{number:032x}" for number in range(600)])
        place.touch()  # a file in place of the folder
        database.maintain()
        assert sum("store of sounds failed" in record.message for record in caplog.records) == 5
        assert count_rows(url, "stored_objects") == 600
        place.unlink()
        database.maintain()
    assert count_rows(url, "stored_objects") == 0


def test_failing_store_raises_and_loses_nothing(url: str, tmp_path: Path) -> None:
    place = tmp_path / "sounds"
    with Storage.open(url, audio_store=place) as storage:
        kept = storage.voices.add(voice())
        assert storage.voices.load(kept.id) == voice()
        place.rename(tmp_path / "away")
        place.touch()  # a file in place of the folder
        with pytest.raises(DatabaseUnavailable, match="store of sounds does not answer") as caught:
            storage.voices.add(voice("Bea"))
        assert str(place) in caught.value.detail
        assert [record.name for record in storage.voices.list()] == ["Ada"]
        storage.voices.delete(kept.id)  # its objects are deleted once the store is back
        place.unlink()
        (tmp_path / "away").rename(place)
        storage.voices.purge_expired()
        assert objects(str(place)) == []


def test_object_in_a_folder_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the names of the object and of its folders are on the disk when `write` returns."""
    steps: list[object] = []
    sync, replace = os.fsync, os.replace

    def record_sync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        folders = {path.stat().st_ino: path for path in (tmp_path, *tmp_path.rglob("*")) if path.is_dir()}
        steps.append(folders.get(status.st_ino, status.st_size))
        sync(descriptor)

    def record_replace(old: Path, new: Path) -> None:
        assert not new.exists()
        steps.append("replace")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    store, name = ObjectStore(tmp_path / "sounds"), "a" * 32
    store.write(name, b"sound")
    folder = tmp_path / "sounds" / "aa"
    assert steps == [folder.parent, tmp_path, len(b"sound"), "replace", folder]
    assert [path.name for path in folder.iterdir()] == [name]
    steps.clear()
    store.delete(name)
    assert steps == [folder]
    assert not list(folder.iterdir())


def test_object_that_cannot_be_synced_has_no_name_and_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store, name = ObjectStore(tmp_path), "a" * 32
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DatabaseUnavailable):
        store.write(name, b"sound")
    with pytest.raises(DatabaseUnavailable):
        store.read(name)
    store.delete(name)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nothing://here", "folder or a URL"),
        ("adl://here/there", "one more package"),
        ("ftp://ada:secret@127.0.0.1:1/sounds", "does not answer"),  # connects when it is created
    ],
)
def test_invalid_store_is_rejected(tmp_path: Path, place: str, sentence: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=sentence) as caught:
        Storage.open(tmp_path / "voices.db", audio_store=place)
    assert "secret" not in caught.value.detail
    assert not (tmp_path / "voices.db").exists()
