"""A SQLite file or a PostgreSQL database, migrated to head, and its transactions."""

from __future__ import annotations

import contextlib
import logging
import os
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Engine, ExceptionContext, create_engine, event, func, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
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
from sqlalchemy.pool import ConnectionPoolEntry

from storage import durable_files, migrations
from storage.database_errors import READ_ONLY, damaged, sqlstate, unavailable
from storage.errors import DatabaseUnavailable, DiskFull
from storage.object_store import ObjectStore, StoredSound, info_of
from storage.repositories import stored_objects
from storage.sqlite import erasure
from storage.sqlite.connection import open_file
from storage.sqlite.maintenance import Maintenance
from storage.validation import new_id, utc_now

log = logging.getLogger(__name__)

Result = TypeVar("Result")

MIGRATION_LOCK = 0x52_65_70_72_69_73_65  # "Reprise": an arbitrary number, the same in all processes
SHARING_LOCK = MIGRATION_LOCK + 1
WRITING = timedelta(hours=1)  # after this time an object whose row was never stored is deleted
DEADLOCKS = 3  # of a deletion, after which another one ends it
DISCARDED_AT_ONCE = 500  # objects; each is a parameter of a query, of which databases limit the number
# A call ends when the server's machine no longer responds. Statements have no time limit: copying a library, migrating
# it and deleting much of it may take minutes.
POSTGRESQL_TIMEOUTS = {
    "connect_timeout": 10,  # seconds
    "keepalives": 1,
    "keepalives_idle": 30,  # seconds without traffic before the first probe
    "keepalives_interval": 10,  # seconds between probes
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds for sent data to be acknowledged
}
_BUGS = (ProgrammingError, DataError, NotSupportedError)  # mistakes in this package; not translated


class Database:
    """A migrated database. `read`, `write`, `replace` and `delete` are one transaction each and safe in any thread."""

    def __init__(
        self,
        engine: Engine,
        location: str,
        maintenance: Maintenance | None = None,
        objects: ObjectStore | None = None,
    ) -> None:
        """location: for error details. maintenance: of a SQLite file. objects: where new sounds go."""
        self._engine = engine
        self._objects = objects
        self._location = location
        self._maintenance = maintenance
        self._closed = False
        # All queries of a reading session must see one state. SQLite's WAL mode guarantees that by itself.
        self._reading = engine
        if engine.dialect.name == "postgresql":
            self._reading = engine.execution_options(isolation_level="REPEATABLE READ")
        self._writing = engine.execution_options(writes=True)

    @classmethod
    def open(cls, url_or_path: str | Path, *, busy_timeout: float, audio_store: str | Path | None = None) -> Database:
        """Open or create a database and migrate it.

        busy_timeout: seconds. audio_store: folder or URL for clips and takes; None: in the database.
        Raises DatabaseUnavailable.
        """
        url = _url(url_or_path)
        objects = None if audio_store is None else ObjectStore(audio_store)
        location = url.render_as_string(hide_password=True) if url.host or not url.database else url.database
        try:
            if url.get_backend_name() == "sqlite":
                return cls(open_file(url, busy_timeout), location, Maintenance(url, busy_timeout), objects)
            return cls(_open_postgresql(url), location, objects=objects)
        except (OSError, SQLAlchemyError) as error:
            raise unavailable(error, location) from error
        except UnicodeDecodeError as error:
            raise damaged("text that is not UTF-8") from error

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session that sees one state of the database. Raises DatabaseUnavailable."""
        with self._translated(), self._session(self._reading) as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """Open a session that is committed at its end, or rolled back. Raises DatabaseUnavailable, DiskFull."""
        try:
            with self._transaction(self._writing) as session:
                yield session
                if self._maintenance and erasure.is_marked(session):
                    erasure.request(session=session)
        except DiskFull:
            if self._maintenance:
                self._maintenance.truncate_log()  # it contains the unfinished transaction
            raise

    @contextlib.contextmanager
    def write_exclusively(self) -> Iterator[Session]:
        """Like `write`, with no other exclusive writer in any process."""
        with self.write() as session:
            if self._engine.dialect.name == "postgresql":  # SQLite has only one writer at a time
                session.execute(select(func.pg_advisory_xact_lock(SHARING_LOCK)))
            yield session

    @contextlib.contextmanager
    def replace(self) -> Iterator[Session]:
        """Like `write`, for replacing texts: the next `maintain` overwrites the old texts in a SQLite file."""
        with self.write() as session:
            erasure.mark(session)
            yield session

    def delete(self, work: Callable[[Session], Result], *, now: bool = True) -> Result:
        """Delete with `work` in one transaction, also on a full disk; then overwrite the data in a SQLite file.

        now: False defers overwriting to the next `maintain`, as do a concurrent reader and a large file. When the disk
        is full, or in a deadlock, `work` is called again. Sounds in a store are deleted too. Raises
        DatabaseUnavailable, and what `work` raises.
        """
        result = self._delete(work, now)
        if now:
            self._discard_unused()
        return result

    def _delete(self, work: Callable[[Session], Result], now: bool) -> Result:
        if self._maintenance is None:
            return self._delete_rows(work)
        try:
            with self.replace() as session:
                result = work(session)
        except DiskFull:
            return self._delete_with_reserve(self._maintenance, work)
        if now:
            self._maintenance.overwrite_if_quick()
        return result

    def _delete_rows(self, work: Callable[[Session], Result]) -> Result:
        """Delete with `work`. Deletions lock many rows, in no certain order: of two that wait for each other, the
        server ends one, which is then done again.
        """
        for _ in range(DEADLOCKS):
            try:
                with self.write() as session:
                    return work(session)
            except DatabaseUnavailable as error:
                if error.message.key != "database.busy":
                    raise
        with self.write() as session:
            return work(session)

    def _delete_with_reserve(self, maintenance: Maintenance, work: Callable[[Session], Result]) -> Result:
        with maintenance.reserved_space() as engine, self._transaction(engine) as session:
            result = work(session)
            erasure.request(session=session, free_pages=True)
            return result

    @contextlib.contextmanager
    def storing(self, sounds: Sequence[bytes]) -> Iterator[list[StoredSound]]:
        """Write sounds to the store, if there is one, for a transaction within the block, which must `keep` them.

        If the block raises, they are deleted again, unless its transaction was committed. Raises DatabaseUnavailable.
        """
        with self.reserving(len(sounds)) as store:
            yield [store(sound) for sound in sounds]

    @contextlib.contextmanager
    def reserving(self, count: int) -> Iterator[Callable[[bytes], StoredSound]]:
        """Like `storing`, for at most `count` sounds, written one by one within the transaction."""
        if self._objects is None:
            yield StoredSound
            return
        objects, names = self._objects, [new_id() for _ in range(count)]
        with self.write() as session:
            stored_objects.note(session=session, names=names, now=utc_now())
        free = iter(names)

        def store(sound: bytes) -> StoredSound:
            if not sound:
                return StoredSound(b"")
            name = next(free)
            objects.write(name, sound)
            return StoredSound(b"", name, len(sound))

        try:
            yield store
        except BaseException:
            with contextlib.suppress(DatabaseUnavailable):  # otherwise `maintain` deletes them later
                self._discard_never_kept(objects, names)
            raise

    def _discard_never_kept(self, objects: ObjectStore, names: list[str]) -> None:
        """Delete the objects that were not kept. After a lost connection or an interruption the commit may be done."""
        unkept: list[str] = []
        with self.write() as session:
            for start in range(0, len(names), DISCARDED_AT_ONCE):
                unkept += stored_objects.never_kept(session=session, names=names[start : start + DISCARDED_AT_ONCE])
        self._discard(objects, unkept)

    def _discard_unused(self) -> None:
        """Delete the objects that no row refers to. A failure is logged; `maintain` tries again."""
        if self._objects is None:
            return
        with contextlib.suppress(DatabaseUnavailable), self.write() as session:  # a full disk refuses it
            stored_objects.give_up(session=session, before=utc_now() - WRITING)
        with contextlib.suppress(DatabaseUnavailable):
            with self.read() as session:
                names = stored_objects.unused(session=session)
            random.shuffle(names)  # those that cannot be deleted must not always come first
            self._discard(self._objects, names)

    def _discard(self, objects: ObjectStore, names: list[str]) -> None:
        """Delete objects, and the notes of those that could be deleted, in batches."""
        for start in range(0, len(names), DISCARDED_AT_ONCE):
            deleted = objects.delete_all(names[start : start + DISCARDED_AT_ONCE])
            if not deleted:  # the store is unavailable
                return
            with self.write() as session:
                stored_objects.forget(session=session, names=deleted)

    def check(self) -> None:
        """Check that the database can be read now, whatever is cached. Raises DatabaseUnavailable."""
        if self._maintenance is None:
            with self.read() as session:
                session.execute(select(1))
            return
        with self._translated():
            self._maintenance.check()

    def check_store(self) -> None:
        """Check that sounds can be stored, if they are kept outside the database. Raises DatabaseUnavailable."""
        if self._objects is not None:
            self._objects.check()

    def maintain(self) -> None:
        """Overwrite pending deleted data and renew the disk reserve. Call it about every minute."""
        if not self._closed:
            self._discard_unused()
        if self._maintenance and not self._closed:
            self._maintenance.overwrite()
            self._maintenance.make_reserve()

    def close(self) -> None:
        """Close the database, and overwrite pending data if no reader prevents it."""
        if self._closed:
            return
        self._closed = True
        self._engine.dispose()
        if self._maintenance:
            self._maintenance.overwrite()

    @contextlib.contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Session]:
        alone = self._maintenance.only_writer() if self._maintenance else contextlib.nullcontext()
        with alone, self._translated(), self._session(engine) as session, session.begin():
            yield session

    def _session(self, engine: Engine) -> Session:
        return Session(engine, expire_on_commit=False, info=info_of(self._objects))

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        if self._closed:
            raise DatabaseUnavailable("database.closed")
        try:
            yield
        except _BUGS:
            raise
        except (DatabaseError, InterfaceError, PoolTimeout) as error:
            raise self._logged(unavailable(error, self._location)) from error
        except UnicodeDecodeError as error:  # from a SQLite message that quotes data
            raise self._logged(damaged("text that is not UTF-8")) from error

    def _logged(self, error: DatabaseUnavailable) -> DatabaseUnavailable:
        log.warning("%s %s", error, error.detail)
        return error


def library_file(url_or_path: str | Path) -> Path | None:
    """Return the file of a SQLite library; None for a server. Raises DatabaseUnavailable for a URL of neither."""
    url = _url(url_or_path)
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def _url(url_or_path: str | Path) -> URL:
    if "://" not in str(url_or_path):
        return URL.create("sqlite", database=str(durable_files.expanded(url_or_path)))
    try:
        url = make_url(str(url_or_path))
    except (ArgumentError, ValueError) as error:
        raise DatabaseUnavailable("database.bad_url") from error
    if url.host and "@" in f"{url.host}/{url.database}":  # of the password, whose end would be shown with these
        raise DatabaseUnavailable("database.bad_url")
    if url.get_backend_name() in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise DatabaseUnavailable("database.other_url")
    if url.query or url.database in (None, "", ":memory:"):
        raise DatabaseUnavailable("database.no_path")
    return url.set(drivername="sqlite")


def _open_postgresql(url: URL) -> Engine:
    # Prepared statements have names, which poolers of transactions, such as PgBouncer, do not keep apart.
    settings = {"client_encoding": "utf8", "prepare_threshold": None, **_timeouts(url)}
    try:
        engine = create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=settings)
    except ModuleNotFoundError as error:
        raise DatabaseUnavailable("database.no_driver") from error
    event.listen(engine, "connect", _use_utc)
    event.listen(engine, "handle_error", _replace_connections_to_a_standby)
    with engine.begin() as connection:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise DatabaseUnavailable("database.not_utf8")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
        migrations.upgrade(connection)
    return engine


def _use_utc(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Let the server send times in UTC. In its own zone, the first and the last of all times, which the consent of an
    imported voice may have, are outside of the years that Python knows.
    """
    connection.cursor().execute("SET TIME ZONE 'UTC'")
    connection.commit()


def _replace_connections_to_a_standby(error: ExceptionContext) -> None:
    """Take the pool's connections for lost if the server has become a standby, which answers, but refuses to write."""
    error.is_disconnect |= sqlstate(error.original_exception) == READ_ONLY


def _timeouts(url: URL) -> dict[str, int]:
    """Return the timeouts of connections to PostgreSQL that neither the URL nor the environment sets."""
    given = {*url.query, *(["connect_timeout"] if "PGCONNECT_TIMEOUT" in os.environ else [])}
    return {name: value for name, value in POSTGRESQL_TIMEOUTS.items() if name not in given}
