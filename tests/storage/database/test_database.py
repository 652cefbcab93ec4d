"""Opening a library: the file's permissions and settings, and the errors for unusable databases."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from storage import Storage
from storage.database import POSTGRESQL_TIMEOUTS, Database
from storage.errors import DatabaseUnavailable
from tests.paths import ROOT
from tests.storage.making import open_voices, voice

MIGRATES = True  # with Alembic


@contextmanager
def unprivileged_user() -> Iterator[None]:
    """Run as another user where the tests run as root, which ignores permissions."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder that another user can reach."""
    for folder in (tmp_path, *tmp_path.parents):  # pytest's folders are private to the user
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    yield folder
    folder.chmod(0o755)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_import_opens_no_file_and_does_not_import_torch(tmp_path: Path) -> None:
    program = "import sys, engine.voice; from storage import Storage, VoiceLibrary; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment)
    assert list(tmp_path.iterdir()) == []


def test_files_and_folders_are_private(tmp_path: Path) -> None:
    path = tmp_path / "made" / "here" / "voices.sqlite"
    old = os.umask(0)
    try:
        with open_voices(path) as library:
            library.add(voice())
            made = {file.name: mode(file) for file in path.parent.iterdir()}
    finally:
        os.umask(old)
    names = ("voices.sqlite", "voices.sqlite-wal", "voices.sqlite-shm")
    assert made == dict.fromkeys(names, 0o600)
    assert mode(path.parent) == 0o700


def test_file_readable_by_others_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "voices.sqlite"
    Storage.open(path).close()
    path.chmod(0o644)
    Storage.open(path).close()
    assert mode(path) == 0o600


def test_connections_use_wal_foreign_keys_and_busy_timeout(tmp_path: Path) -> None:
    pragmas = ("journal_mode", "foreign_keys", "busy_timeout", "synchronous", "secure_delete")
    database = Database.open(tmp_path / "v.sqlite", busy_timeout=2.5)
    with closing(database), database.read() as session:
        values = [session.connection().exec_driver_sql(f"PRAGMA {pragma}").scalar() for pragma in pragmas]
    assert values == ["wal", 1, 2500, 2, 1]


@pytest.mark.parametrize("kind", ["path", "string", "url"])
def test_paths_and_urls_name_the_same_file(tmp_path: Path, kind: str) -> None:
    # "%" is special in a URL but not in a path.
    path = tmp_path / ("with space and ü.sqlite" if kind == "url" else "with space, % and ü.sqlite")
    names: dict[str, str | Path] = {"path": path, "string": str(path), "url": f"sqlite:///{path}"}
    with open_voices(names[kind]) as library:
        library.add(voice())
    with open_voices(path) as library:
        assert len(library.list()) == 1


def test_relative_and_home_paths_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Storage.open("here.sqlite").close()
    Storage.open("~/there.sqlite").close()
    assert (tmp_path / "here.sqlite").exists()
    assert (tmp_path / "home" / "there.sqlite").exists()


@pytest.mark.parametrize("content", [b"RIFF....WAVEfmt ", b"x", b"SQLite format 3\0" + b"\xa5" * 4096])
def test_file_of_another_kind_is_rejected_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clip.wav"
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(DatabaseUnavailable, match=r"another kind|damaged") as caught:
        Storage.open(path)
    assert str(path) in caught.value.detail
    assert str(path) not in str(caught.value)
    assert path.read_bytes() == content
    assert mode(path) == 0o644


def test_database_of_another_program_is_rejected_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE bookmarks (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(DatabaseUnavailable, match="another program"):
        Storage.open(path)
    assert path.read_bytes() == before


def test_newer_database_is_rejected_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "voices.sqlite"
    Storage.open(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("UPDATE reprise_version SET version_num = '9999'")
        newer.commit()
    with pytest.raises(DatabaseUnavailable, match="newer version of Reprise"):
        Storage.open(path)
    with closing(sqlite3.connect(path)) as newer:
        assert newer.execute("SELECT version_num FROM reprise_version").fetchall() == [("9999",)]


def test_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"has to be a file\."):
        Storage.open(tmp_path)


def test_path_below_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable, match="cannot be read and written"):
        Storage.open(tmp_path / "file" / "voices.sqlite")


def test_read_only_folder_is_rejected(shared: Path) -> None:
    shared.chmod(0o555)
    with unprivileged_user(), pytest.raises(DatabaseUnavailable, match=r"cannot be read and written\."):
        Storage.open(shared / "voices.sqlite")


def test_read_only_file_is_rejected(shared: Path) -> None:
    path = shared / "voices.sqlite"
    with unprivileged_user():
        Storage.open(path).close()
        path.chmod(0o444)
        shared.chmod(0o555)
        with pytest.raises(DatabaseUnavailable, match="cannot be read and written"):
            Storage.open(path)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite://", "is a file"),
        ("sqlite:///:memory:", "is a file"),
        ("sqlite:///voices.sqlite?mode=ro", "is a file"),
        ("mysql://localhost/voices", "SQLite or PostgreSQL"),
        ("://", "cannot be read"),
        ("postgresql://localhost:port/voices", "cannot be read"),
        ("postgresql://reprise:p@ss@localhost/voices", "%40 for @"),
        ("postgresql://reprise:p@s/s@localhost/voices", "%40 for @"),
    ],
)
def test_unusable_url_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, sentence: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatabaseUnavailable, match=sentence):
        Storage.open(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_missing_server_error_does_not_contain_the_password(tmp_path: Path, scheme: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(DatabaseUnavailable, match="server does not answer") as caught:
        Storage.open(f"{scheme}://ada:secret@/voices?host={tmp_path}")
    assert "secret" not in f"{caught.value} {caught.value.detail}"
    assert str(tmp_path) not in str(caught.value)
    assert str(tmp_path) in caught.value.detail


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_postgresql_database_without_unicode_is_refused(postgresql_server: str, encoding: str) -> None:
    server = create_engine(
        make_url(postgresql_server).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with closing(server.connect()) as connection:
        connection.exec_driver_sql(f"CREATE DATABASE narrow ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        try:
            narrow = make_url(postgresql_server).set(database="narrow").render_as_string(hide_password=False)
            with pytest.raises(DatabaseUnavailable, match=r"stores no Unicode text\. Make one with"):
                Storage.open(narrow)
        finally:
            connection.exec_driver_sql("DROP DATABASE narrow WITH (FORCE)")
    server.dispose()


def test_connections_to_postgresql_have_timeouts_unless_the_user_sets_them(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parameters(url: str) -> dict[str, str]:
        with closing(Database.open(url, busy_timeout=1.0)) as database, database.read() as session:
            driver = session.connection().connection.driver_connection
            assert driver is not None
            return dict(driver.info.get_parameters())

    assert parameters(postgresql).items() >= {name: str(value) for name, value in POSTGRESQL_TIMEOUTS.items()}.items()
    given = {"connect_timeout": "3", "keepalives_idle": "7", "tcp_user_timeout": "0", "application_name": "ada"}
    found = parameters(make_url(postgresql).update_query_dict(given).render_as_string(hide_password=False))
    assert {name: found[name] for name in given} == given
    assert found["keepalives_count"] == "3"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    assert parameters(postgresql)["connect_timeout"] == "4"


def test_statements_have_no_names_on_postgresql(postgresql: str) -> None:
    """A pooler such as PgBouncer may run each transaction on another of the server's connections, or give one to
    several clients, whose names would be missing or taken."""
    with closing(Database.open(postgresql, busy_timeout=1.0)) as database:
        for _ in range(10):  # the driver names a statement that it has seen five times
            with database.write() as session:
                assert session.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one() == 0


def test_connections_to_a_server_that_has_become_a_standby_are_replaced(postgresql: str) -> None:
    """After a failover, a name stands for another server, while the pool's connections reach the old one."""
    with closing(Database.open(postgresql, busy_timeout=1.0)) as database:
        with database.write() as session:
            session.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
        change = text("UPDATE reprise_version SET version_num = version_num")
        with pytest.raises(DatabaseUnavailable), database.write() as session:
            session.execute(change)
        with database.write() as session:
            session.execute(change)


def test_check_finds_a_damaged_or_replaced_file(tmp_path: Path) -> None:
    """Connections keep pages and the opened file, so that other calls may not notice for hours."""
    path = tmp_path / "voices.sqlite"
    with Storage.open(path) as storage:
        storage.check()
        assert not storage.keys.any()
        whole = path.read_bytes()
        with path.open("r+b") as file:
            file.write(b"\xff" * 8192)
        assert not storage.keys.any()  # from the cache
        with pytest.raises(DatabaseUnavailable, match="is damaged"):
            storage.check()
        with path.open("r+b") as file:
            file.write(whole)
        storage.check()
        path.rename(tmp_path / "moved.sqlite")
        for replaced in (False, True):
            if replaced:
                path.write_bytes(whole)
            with pytest.raises(DatabaseUnavailable) as caught:
                storage.check()
            assert "replaced while it was in use" in caught.value.detail
        path.unlink()
        (tmp_path / "moved.sqlite").rename(path)


def test_closed_library_is_not_ready(url: str) -> None:
    with Storage.open(url) as storage:
        storage.check()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        storage.check()


def test_busy_database_raises_after_the_timeout(tmp_path: Path) -> None:
    path = tmp_path / "voices.sqlite"
    with open_voices(path, busy_timeout=0.05) as library, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match=r"another program is using it\."):
            library.add(voice())
        assert library.list() == []
        other.rollback()
        library.add(voice())


def test_damage_found_while_reading_raises(tmp_path: Path) -> None:
    path = tmp_path / "voices.sqlite"
    with open_voices(path) as library:
        record = library.add(voice())
    with closing(sqlite3.connect(path)) as direct:
        pages = direct.execute("SELECT rootpage FROM sqlite_master WHERE name = 'voice_references'")
        start = (pages.fetchone()[0] - 1) * 4096
    content = path.read_bytes()
    path.write_bytes(content[:start] + b"\xa5" * 4096 + content[start + 4096 :])
    with open_voices(path) as library, pytest.raises(DatabaseUnavailable, match="is damaged"):
        library.load(record.id)


def test_deleted_voices_leave_no_bytes_in_the_files(tmp_path: Path) -> None:
    path = tmp_path / "voices.sqlite"
    kept, gone, also_gone = (voice(name, seed=seed) for seed, name in ((10, "Ada"), (20, "Bea"), (30, "Cleo")))
    marks = [
        [v.name.encode(), v.references[0].transcript.encode(), v.references[1].clip[-64:]] for v in (gone, also_gone)
    ]

    def content() -> bytes:
        return b"".join(file.read_bytes() for file in tmp_path.iterdir())

    with open_voices(path) as library:
        library.add(kept)
        record = library.add(gone, owner="her")
        other = library.add(also_gone, owner="her")
        assert all(mark in content() for mark in marks[0] + marks[1])
        library.delete(record.id, owner="her")
        assert not any(mark in content() for mark in marks[0])
        library.delete(other.id, owner="her")
        assert not any(mark in content() for mark in marks[1])
        assert kept.references[1].clip[-64:] in content()
