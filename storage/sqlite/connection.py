"""Opening a SQLite file as a library: what it must be, who can read it, and connections to it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, inspect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from engine.errors import DatabaseUnavailable
from storage import migrations
from storage.failures import code_of

PAGE_SIZE = 4096  # bytes
SIDE_FILES = ("-wal", "-shm", "-journal", "-reserve")  # beside the database, after its name

_MAGIC = b"SQLite format 3\0"
_PRAGMAS = (
    "synchronous = FULL",  # a saved voice outlives a power cut
    "secure_delete = ON",  # freed pages and cells are overwritten with zeros
)


def open_file(url: URL, busy_timeout: float) -> Engine:
    """Make the file, or check that it is a library, and migrate it. Raises DatabaseUnavailable, OSError."""
    path = Path(url.database or "")
    _prepare(path)
    # Migrations may copy a table and drop the old one: with foreign keys on, that deletes what refers to it.
    migrating = connect(url, busy_timeout, "foreign_keys = OFF", f"page_size = {PAGE_SIZE}", keep=False)
    with migrating.connect() as connection:
        _refuse_foreign(connection, path)
        migrations.refuse_newer(connection)
    _enable_wal(migrating, busy_timeout)
    with migrating.execution_options(writes=True).begin() as connection:
        migrations.upgrade(connection)
    _make_private(path)
    return connect(url, busy_timeout)


def connect(url: URL, busy_timeout: float, *pragmas: str, keep: bool = True) -> Engine:
    """Connections with `busy_timeout` in seconds, foreign keys, and these pragmas after our own.

    keep: whether they stay open for the next transaction. A transaction with the option `writes` locks at once.
    """
    pool = None if keep else NullPool
    # Errors and logs hold no parameters: those are what people typed.
    engine = create_engine(url, poolclass=pool, hide_parameters=True, connect_args={"timeout": busy_timeout})

    @event.listens_for(engine, "connect")
    def configure(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        # The driver's own notion of when transactions begin would leave table definitions outside them.
        setattr(connection, "isolation_level", None)  # noqa: B010
        _set(connection, ("foreign_keys = ON", *_PRAGMAS, *pragmas))

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: turning from reader to writer fails when another was faster.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _set(connection: DBAPIConnection, pragmas: Sequence[str]) -> None:
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _prepare(path: Path) -> None:
    """Make a file that only its user can read, or see that the one there is SQLite's. Logs take its mode."""
    for each in (path, *(path.with_name(path.name + suffix) for suffix in SIDE_FILES)):
        _refuse_special(each)
    _make(path)
    # Should the path have become a pipe since, this does not wait for its other end.
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # noqa: PTH123
        start = file.read(len(_MAGIC))
    if start not in (b"", _MAGIC):
        raise DatabaseUnavailable("The voice library's file is a file of another kind.", detail=str(path))


def _refuse_special(path: Path) -> None:
    """Raises DatabaseUnavailable for a folder, a device, a pipe or a socket, without opening it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise DatabaseUnavailable("The voice library cannot be opened: it has to be a file.", detail=str(path))


def _make(path: Path) -> None:
    """An empty file, and the folders to it, unless they are there; on the disk when this returns."""
    missing = [folder for folder in path.absolute().parents if not folder.exists()]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    for folder in (path.absolute().parent, *(folder.parent for folder in missing)):
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be opened or synced, as on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refuse_foreign(connection: Connection, path: Path) -> None:
    tables = inspect(connection).get_table_names()
    if tables and migrations.VERSION_TABLE not in tables:
        raise DatabaseUnavailable("The voice library's file is the database of another program.", detail=str(path))


def _enable_wal(engine: Engine, busy_timeout: float) -> None:
    """Switch to WAL mode, which lasts. SQLite does not always wait here for another process that opens it."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            with contextlib.closing(engine.raw_connection()) as raw:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            locked = code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not locked or time.monotonic() > deadline:
                raise OperationalError("PRAGMA journal_mode = WAL", None, error) from error
            time.sleep(0.01)


def _make_private(path: Path) -> None:
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        # Another user's file is that user's to guard; a log may not be there, or go away this moment.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            file.chmod(0o600)
