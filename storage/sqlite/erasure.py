"""Overwriting deleted and replaced data, so that no file of a SQLite database contains it.

With `secure_delete` SQLite fills freed pages and cells with zeros. Three cases remain:

- Rows move between the pages of a B-tree and leave their bytes behind, where no deletion overwrites them. Therefore
  all tables of texts are rewritten from their rows into zeroed pages. The tables of sound are too large for that: the
  column `lead` (`storage/models.py`) keeps their texts and sound out of B-tree pages, in overflow pages that belong
  to one row and are zeroed when it is deleted.
- The write-ahead log contains earlier versions of pages. Therefore a checkpoint truncates it, which waits for readers.
- A deletion on a full disk frees pages without overwriting them, because the log has no space. Therefore all free
  pages are allocated again and filled with zeros, a few at a time.

The table `erasures` counts requested and finished erasures, so that pending ones are finished later, even by another
process.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine, Table, select, update
from sqlalchemy.orm import Session

from storage.database_errors import code_of
from storage.models import LEAD_BYTES, Base, ErasureRow

READERS_TIMEOUT = 1.0  # seconds to wait for readers of the log
_REWRITTEN_AT_ONCE = 0.2  # seconds; a table that takes longer is rewritten alone
_FILLED_AT_ONCE = 200  # pages
_TURN = 0.001  # seconds for another thread to begin a transaction
_MARK = "replaces a text"


def mark(session: Session) -> None:
    """Mark a transaction that replaces a text; `storage.database` then requests overwriting."""
    session.info[_MARK] = True


def is_marked(session: Session) -> bool:
    """Whether `mark` was called."""
    return _MARK in session.info


def request(*, session: Session, free_pages: bool = False) -> None:
    """Request overwriting after this transaction. free_pages: whether the pages that it frees keep their bytes."""
    values: dict[str, object] = {"requested": ErasureRow.requested + 1}
    if free_pages:
        values["free_pages"] = True
    session.execute(update(ErasureRow).values(values))


def pending(engine: Engine) -> bool:
    """Whether any request is pending."""
    with engine.begin() as connection:
        return connection.scalar(select(ErasureRow.requested > ErasureRow.finished)) is True


def overwrite(engine: Engine, only_writer: Callable[[], AbstractContextManager[None]]) -> bool:
    """Overwrite everything requested; return False if a reader or another process prevents it.

    engine: with foreign keys off and temporary tables in memory. only_writer: keeps other threads from writing, in each
    of the steps. Raises SQLAlchemyError, and what `only_writer` raises.
    """
    try:
        requested, free_pages = _rewrite_tables(engine, only_writer)
        if free_pages:
            _fill_free_pages(engine, only_writer)
    finally:
        with only_writer():
            truncated = truncate_log(engine)  # also after a failure, which may be due to missing space
    if truncated:
        with only_writer():
            _note_finished(engine, requested)
    return truncated


def _rewrite_tables(engine: Engine, only_writer: Callable[[], AbstractContextManager[None]]) -> tuple[int, bool]:
    """Rewrite the tables of texts; return the last request's number, and whether free pages must be overwritten."""
    with engine.begin() as connection:
        requested, free_pages = connection.execute(select(ErasureRow.requested, ErasureRow.free_pages)).one()
        tables = deque(_rewritten(connection))
    while tables:
        with only_writer(), engine.execution_options(writes=True).begin() as connection:
            end = time.monotonic() + _REWRITTEN_AT_ONCE
            _rewrite(connection, tables.popleft())
            while tables and time.monotonic() < end:
                _rewrite(connection, tables.popleft())
        time.sleep(_TURN)
    return int(requested), bool(free_pages)


def truncate_log(engine: Engine) -> bool:
    """Checkpoint the log and empty it; return False if others keep it in use."""
    deadline = time.monotonic() + READERS_TIMEOUT
    while not _checkpoint(engine):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _checkpoint(engine: Engine) -> bool:
    """Try a truncating checkpoint, which waits for readers up to the connection's timeout."""
    with contextlib.closing(engine.raw_connection()) as raw:
        try:
            busy, _, _ = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            if code_of(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            return False
        return bool(busy == 0)


def _rewritten(connection: Connection) -> list[Table]:
    """Return the tables with texts in B-tree pages."""
    lead_fills_a_page = connection.exec_driver_sql("PRAGMA page_size").scalar_one() <= LEAD_BYTES
    return [table for table in Base.metadata.sorted_tables if not (lead_fills_a_page and "lead" in table.columns)]


def _rewrite(connection: Connection, table: Table) -> None:
    """Move the rows into new pages. DELETE without WHERE frees all pages of a table and its indexes at once."""
    for statement in (
        f"CREATE TEMPORARY TABLE rewritten AS SELECT * FROM main.{table.name} ORDER BY rowid",
        f"DELETE FROM main.{table.name}",
        f"INSERT INTO main.{table.name} SELECT * FROM rewritten ORDER BY rowid",
        "DROP TABLE rewritten",
    ):
        connection.exec_driver_sql(statement)


def _fill_free_pages(engine: Engine, only_writer: Callable[[], AbstractContextManager[None]]) -> None:
    """Allocate all free pages for rows of zeros, in steps that need little log space; then free them again."""
    writing = engine.execution_options(writes=True)
    with only_writer(), writing.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS zeros (filled BLOB)")
    filled = True
    while filled:
        with only_writer():
            filled = _fill_some(writing)
            truncate_log(engine)
        time.sleep(_TURN)
    with only_writer(), writing.begin() as connection:
        connection.exec_driver_sql("PRAGMA secure_delete = OFF")  # they are zeros already
        connection.exec_driver_sql("DROP TABLE zeros")


def _fill_some(engine: Engine) -> bool:
    with engine.begin() as connection:
        free = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
        page = int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        # One page more, because the first bytes of a row are in its B-tree page.
        size = (min(free, _FILLED_AT_ONCE) + 1) * page
        if free:
            connection.exec_driver_sql("INSERT INTO zeros VALUES (zeroblob(?))", (size,))
        return free > 0


def _note_finished(engine: Engine, requested: int) -> None:
    """Mark requests as finished; newer ones stay pending."""
    with engine.execution_options(writes=True).begin() as connection:
        done = update(ErasureRow).values(finished=requested)
        connection.execute(done)
        connection.execute(update(ErasureRow).where(ErasureRow.requested == requested).values(free_pages=False))
