"""The database, a SQLite file or PostgreSQL, migrated to head; sessions of one transaction each."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Engine, create_engine, func, make_url, select
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    InterfaceError,
    NotSupportedError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from engine.errors import DatabaseUnavailable, DiskFull
from storage import migrations
from storage.failures import damaged, unavailable
from storage.sqlite import erasure
from storage.sqlite.connection import open_file
from storage.sqlite.upkeep import Upkeep

log = logging.getLogger(__name__)

Result = TypeVar("Result")

MIGRATION_LOCK = 0x52_65_70_72_69_73_65  # "Reprise": any number, so long as all our processes agree on it
SHARING_LOCK = MIGRATION_LOCK + 1
_OURS = (ProgrammingError, DataError, NotSupportedError)  # these would be mistakes in our own code


class Database:
    """A migrated database. `read`, `write`, `replace` and `delete` work in any thread; each is one transaction."""

    def __init__(self, engine: Engine, place: str, upkeep: Upkeep | None = None) -> None:
        """upkeep: of a SQLite file."""
        self._engine = engine
        self._place = place
        self._upkeep = upkeep
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
            if url.get_backend_name() == "sqlite":
                return cls(open_file(url, busy_timeout), place, Upkeep(url, busy_timeout))
            return cls(_open_postgresql(url), place)
        except (OSError, SQLAlchemyError) as error:
            raise unavailable(error, place) from error
        except UnicodeDecodeError as error:
            raise damaged("text that is none") from error

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database. Raises DatabaseUnavailable."""
        with self._translated(), Session(self._reading, expire_on_commit=False) as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """A session whose changes all happen when it ends, or none do. Raises DatabaseUnavailable, DiskFull."""
        try:
            with self._transaction(self._writing) as session:
                yield session
                if self._upkeep and erasure.noted(session):
                    erasure.request(session=session)
        except DiskFull:
            if self._upkeep:
                self._upkeep.truncate_log()  # as far as it came, it is in there
            raise

    @contextlib.contextmanager
    def write_alone(self) -> Iterator[Session]:
        """As `write`, while nobody else is in here, in any process."""
        with self.write() as session:
            if self._engine.dialect.name == "postgresql":  # SQLite's writers always take turns
                session.execute(select(func.pg_advisory_xact_lock(SHARING_LOCK)))
            yield session

    @contextlib.contextmanager
    def replace(self) -> Iterator[Session]:
        """As `write`, for changing texts: what they were is overwritten in the file by the next `maintain`."""
        with self.write() as session:
            erasure.note(session)
            yield session

    def delete(self, work: Callable[[Session], Result], *, now: bool = True) -> Result:
        """Have `work` delete, all of it or nothing, also on a full disk; then overwrite it in a SQLite file.

        now: False leaves the overwriting to the next `maintain`, as does a reader that is in the way.
        `work` is called a second time where the disk was full. Raises DatabaseUnavailable, and what `work` raises.
        """
        if self._upkeep is None:
            with self.write() as session:
                return work(session)
        try:
            with self.replace() as session:
                result = work(session)
        except DiskFull:
            return self._delete_in_spare_room(self._upkeep, work)
        if now:
            self._upkeep.overwrite()
        return result

    def _delete_in_spare_room(self, upkeep: Upkeep, work: Callable[[Session], Result]) -> Result:
        with upkeep.spare_room() as engine, self._transaction(engine) as session:
            result = work(session)
            erasure.request(session=session, free_pages=True)
            return result

    def maintain(self) -> None:
        """Overwrite what is still to be overwritten, and keep room for deleting. To be called every minute or so."""
        if self._upkeep and not self._closed:
            self._upkeep.overwrite()
            self._upkeep.make_reserve()

    def close(self) -> None:
        """Let go of it; what is still to be overwritten, and can be at once, is."""
        if self._closed:
            return
        self._closed = True
        self._engine.dispose()
        if self._upkeep:
            self._upkeep.overwrite()

    @contextlib.contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Session]:
        with self._translated(), Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        if self._closed:
            raise DatabaseUnavailable("The voice library has been closed.")
        try:
            yield
        except _OURS:
            raise
        except (DatabaseError, InterfaceError, PoolTimeout) as error:
            raise self._logged(unavailable(error, self._place)) from error
        except UnicodeDecodeError as error:  # of a message of SQLite's that quotes what it found
            raise self._logged(damaged("text that is none")) from error

    def _logged(self, error: DatabaseUnavailable) -> DatabaseUnavailable:
        log.warning("%s %s", error, error.detail)
        return error


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


def _open_postgresql(url: URL) -> Engine:
    try:
        engine = create_engine(url, pool_pre_ping=True, hide_parameters=True)
    except ModuleNotFoundError as error:
        raise DatabaseUnavailable("PostgreSQL needs one more package: pip install 'psycopg[binary]'.") from error
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
        migrations.upgrade(connection)
    return engine
