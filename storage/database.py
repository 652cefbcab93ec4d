"""Opening the database, SQLite file or PostgreSQL URL, migrated to head; sessions of one transaction each."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, func, inspect, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from engine.errors import DatabaseUnavailable
from storage import migrations

_SQLITE_MAGIC = b"SQLite format 3\0"
MIGRATION_LOCK = 0x52_65_70_72_69_73_65  # "Reprise": any number, so long as all our processes agree on it
SHARING_LOCK = MIGRATION_LOCK + 1
_OURS = (
    IntegrityError,
    ProgrammingError,
    DataError,
    NotSupportedError,
)  # these would be mistakes in our own code


class Database:
    """A migrated database. `read` and `write` give sessions to any thread; each is one transaction."""

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine = engine
        self._place = place
        self._closed = False
        # All queries of one reading session must see the same state. SQLite's WAL mode does that by itself.
        self._reading = engine
        if engine.dialect.name == "postgresql":
            self._reading = engine.execution_options(isolation_level="REPEATABLE READ")
        self._writing = engine.execution_options(writes=True)

    @classmethod
    def open(cls, url_or_path: str | Path, *, busy_timeout: float) -> Database:
        """Open, or make, and migrate. `busy_timeout` in seconds. Raises DatabaseUnavailable."""
        url = _url(url_or_path)
        place = url.render_as_string(hide_password=True) if url.host or not url.database else url.database
        try:
            engine = _open_sqlite(url, busy_timeout) if url.get_backend_name() == "sqlite" else _open_postgresql(url)
        except OSError as error:
            raise DatabaseUnavailable(f"The voice library {place} cannot be opened: {error.strerror}.") from error
        except SQLAlchemyError as error:
            raise DatabaseUnavailable(f"The voice library {place} cannot be opened: {_reason(error)}.") from error
        return cls(engine, place)

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database. Raises DatabaseUnavailable."""
        with self._translated(), Session(self._reading, expire_on_commit=False) as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """A session whose changes all happen when it ends, or none do. Raises DatabaseUnavailable."""
        with self._translated(), Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def write_alone(self) -> Iterator[Session]:
        """As `write`, while nobody else is in here, in any process."""
        with self.write() as session:
            if self._engine.dialect.name == "postgresql":  # SQLite's writers always take turns
                session.execute(select(func.pg_advisory_xact_lock(SHARING_LOCK)))
            yield session

    def purge(self) -> None:
        """Take what was deleted out of SQLite's log as well; in the file `secure_delete` overwrites it."""
        if self._engine.dialect.name != "sqlite":
            return
        # The deletion stands even if this does not come through; the log then goes with a later checkpoint.
        with (
            contextlib.suppress(sqlite3.OperationalError),
            contextlib.closing(self._engine.raw_connection()) as raw,
        ):
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._closed = True
        self._engine.dispose()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        if self._closed:
            raise DatabaseUnavailable("The voice library has been closed.")
        try:
            yield
        except _OURS:
            raise
        except (DatabaseError, InterfaceError, PoolTimeout) as error:
            raise DatabaseUnavailable(f"The voice library {self._place} cannot be used: {_reason(error)}.") from error


def _url(url_or_path: str | Path) -> URL:
    if "://" not in str(url_or_path):
        return URL.create("sqlite", database=str(Path(url_or_path).expanduser()))
    try:
        url = make_url(str(url_or_path))
    except (ArgumentError, ValueError) as error:
        raise DatabaseUnavailable("The database's URL cannot be read.") from error
    if url.get_backend_name() in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise DatabaseUnavailable("The voice library is kept in SQLite or PostgreSQL; this URL is of neither.")
    if url.query or url.database in (None, "", ":memory:"):
        raise DatabaseUnavailable("A SQLite voice library is a file: give its path, without options.")
    return url.set(drivername="sqlite")


def _reason(error: SQLAlchemyError) -> str:
    """The database's own words, without SQL and parameters: those hold what people typed."""
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def _open_postgresql(url: URL) -> Engine:
    try:
        engine = create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise DatabaseUnavailable("PostgreSQL needs one more package: pip install 'psycopg[binary]'.") from error
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
        migrations.upgrade(connection)
    return engine


def _open_sqlite(url: URL, busy_timeout: float) -> Engine:
    path = Path(url.database or "")
    _prepare_file(path)
    # Migrations may copy a table and drop the old one: with foreign keys on, that deletes what refers to it.
    migrating = _sqlite_engine(url, busy_timeout, foreign_keys=False)
    with migrating.connect() as connection:
        _refuse_foreign(connection, path)
    _enable_wal(migrating, busy_timeout)
    with migrating.execution_options(writes=True).begin() as connection:
        migrations.upgrade(connection)
    _make_private(path)
    return _sqlite_engine(url, busy_timeout, foreign_keys=True)


def _sqlite_engine(url: URL, busy_timeout: float, *, foreign_keys: bool) -> Engine:
    pool = None if foreign_keys else NullPool
    engine = create_engine(url, poolclass=pool, connect_args={"timeout": busy_timeout})

    @event.listens_for(engine, "connect")
    def configure(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        # The driver's own notion of when transactions begin would leave table definitions outside them.
        setattr(connection, "isolation_level", None)  # noqa: B010
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        cursor.execute("PRAGMA synchronous = FULL")  # a saved voice outlives a power cut
        cursor.execute("PRAGMA secure_delete = ON")  # a deleted voice is gone, not just unlisted
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: turning from reader to writer fails when another was faster.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _prepare_file(path: Path) -> None:
    """Make a file that only its user can read, or see that the one there is SQLite's. Logs take its mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with path.open("rb") as file:
        start = file.read(len(_SQLITE_MAGIC))
    if start not in (b"", _SQLITE_MAGIC):
        raise DatabaseUnavailable(f"{path} is a file of another kind, not a voice library.")


def _refuse_foreign(connection: Connection, path: Path) -> None:
    tables = inspect(connection).get_table_names()
    if tables and migrations.VERSION_TABLE not in tables:
        raise DatabaseUnavailable(f"{path} is the database of another program, not a voice library.")


def _enable_wal(engine: Engine, busy_timeout: float) -> None:
    """Switch to WAL mode, which lasts. SQLite does not always wait here for another process that opens it."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            with contextlib.closing(engine.raw_connection()) as raw:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            locked = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not locked or time.monotonic() > deadline:
                raise OperationalError("PRAGMA journal_mode = WAL", None, error) from error
            time.sleep(0.01)


def _make_private(path: Path) -> None:
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        # Another user's file is that user's to guard; a log may not be there, or go away this moment.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            file.chmod(0o600)
