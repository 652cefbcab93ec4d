"""Opening a SQLite file: checks, permissions, migration, connections."""

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
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from storage import migrations
from storage.database_errors import code_of
from storage.durable_files import make_folder, sync_folder
from storage.errors import DatabaseUnavailable

PAGE_SIZE = 4096  # bytes
LOG_FILES = ("-wal", "-shm", "-journal")  # suffixes of SQLite's logs, which it replays into the database
SIDE_FILES = (*LOG_FILES, "-reserve")  # suffixes of all files beside the database

_MAGIC = b"SQLite format 3\0"
_PRAGMAS = (
    "synchronous = FULL",  # a commit survives a power cut
    "secure_delete = ON",  # freed pages and cells are overwritten with zeros
)


def open_file(url: URL, busy_timeout: float) -> Engine:
    """Create the file, or check that it is a library, and migrate it. Raises DatabaseUnavailable, OSError."""
    path = Path(url.database or "")
    _prepare(path)
    # Migrations may copy a table and drop the old one, which would delete referring rows if foreign keys were on.
    migrating = connect(url, busy_timeout, "foreign_keys = OFF", f"page_size = {PAGE_SIZE}", keep=False)
    try:
        with migrating.connect() as connection:
            _refuse_foreign(connection, path)
            migrations.refuse_newer(connection)
    except DatabaseError as error:
        if code_of(error.orig) == sqlite3.SQLITE_NOTADB and not _is_database(path):
            raise DatabaseUnavailable("database.other_kind", detail=str(path)) from error
        raise
    _enable_wal(migrating, busy_timeout)
    with migrating.execution_options(writes=True).begin() as connection:
        migrations.upgrade(connection)
    _make_private(path)
    return connect(url, busy_timeout)


def connect(url: URL, busy_timeout: float, *pragmas: str, keep: bool = True) -> Engine:
    """Create an engine with foreign keys on and the given pragmas after the common ones. busy_timeout: seconds.

    keep: whether connections stay open between transactions. A transaction with the execution option `writes` locks
    the database at its beginning.
    """
    pool = None if keep else NullPool
    # Errors and logs contain no parameters, which are user input.
    engine = create_engine(url, poolclass=pool, hide_parameters=True, connect_args={"timeout": busy_timeout})

    @event.listens_for(engine, "connect")
    def configure(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        # With the driver's own transaction control, table definitions would not be transactional.
        setattr(connection, "isolation_level", None)  # noqa: B010
        _set(connection, ("foreign_keys = ON", *_PRAGMAS, *pragmas))

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer locks at once: an upgrade from reader to writer fails if another has written meanwhile.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _set(connection: DBAPIConnection, pragmas: Sequence[str]) -> None:
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _prepare(path: Path) -> None:
    """Create a file that only its user can read, if there is none. SQLite's logs get its mode."""
    for each in (path, *(path.with_name(path.name + suffix) for suffix in SIDE_FILES)):
        _refuse_special(each)
    _make(path)
    if path.stat().st_size == 1:  # SQLite takes a file of one byte for an empty database
        raise DatabaseUnavailable("database.other_kind", detail=str(path))


def _is_database(path: Path) -> bool:
    """Whether a file that SQLite cannot read is a damaged database. Not for others: SQLite's locks on a file end when
    its process closes any descriptor of it.
    """
    # O_NONBLOCK: if the path has become a pipe since, this does not wait for its other end.
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # noqa: PTH123
        return file.read(len(_MAGIC)) == _MAGIC


def _refuse_special(path: Path) -> None:
    """Raise DatabaseUnavailable for a folder, a device, a pipe or a socket, without opening it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise DatabaseUnavailable("database.not_file", detail=str(path))


def _make(path: Path) -> None:
    """Create an empty file and its folders if they are missing, durably."""
    folder = path.absolute().parent
    make_folder(folder)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    sync_folder(folder)


def _refuse_foreign(connection: Connection, path: Path) -> None:
    tables = inspect(connection).get_table_names()
    if tables and migrations.VERSION_TABLE not in tables:
        raise DatabaseUnavailable("database.other_program", detail=str(path))


def _enable_wal(engine: Engine, busy_timeout: float) -> None:
    """Switch to WAL mode permanently. SQLite does not always wait here for another process, so this retries."""
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
        # The file may belong to another user; a log may be missing or disappear at any time.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            file.chmod(0o600)
