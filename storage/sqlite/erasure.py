"""Overwriting what was deleted or replaced, so that no file of a SQLite library holds it.

With `secure_delete` SQLite fills freed pages and cells with zeros. Three things are left, and each has its answer:

- Rows move between the pages of a B-tree, and their bytes stay behind in the page that they left, where no deletion
  finds them. So all tables of texts are written anew: into pages that are zeros, from the rows that there are. Those
  of sound are not, as large as they are: `lead` of `storage/models.py` keeps texts and sound out of the pages whose
  rows move, in overflow pages that belong to one row and are filled with zeros when it goes.
- The write-ahead log holds pages as they were. So a checkpoint truncates it, which has to wait for readers.
- A deletion on a full disk frees pages without overwriting them, for want of room in the log. So all free pages are
  taken once more, and filled with zeros, a little at a time.

The table `erasures` counts what was asked for and what is done: whatever cannot be done now is done later, also by
the next process.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time

from sqlalchemy import Connection, Engine, Table, select, update
from sqlalchemy.orm import Session

from storage.failures import code_of
from storage.models import LEAD_BYTES, Base, ErasureRow

PATIENCE = 1.0  # seconds to wait for readers of the log
_FILLED_AT_ONCE = 200  # pages
_NOTED = "replaces a text"


def note(session: Session) -> None:
    """Say that this transaction replaces a text; `storage.database` then requests that it is overwritten."""
    session.info[_NOTED] = True


def noted(session: Session) -> bool:
    """Whether `note` was called."""
    return _NOTED in session.info


def request(*, session: Session, free_pages: bool = False) -> None:
    """Note that this transaction deletes or replaces something. free_pages: those that it frees keep their bytes."""
    values: dict[str, object] = {"requested": ErasureRow.requested + 1}
    if free_pages:
        values["free_pages"] = True
    session.execute(update(ErasureRow).values(values))


def owed(engine: Engine) -> bool:
    """Whether anything is still to be overwritten."""
    with engine.begin() as connection:
        return connection.scalar(select(ErasureRow.requested > ErasureRow.finished)) is True


def overwrite(engine: Engine) -> bool:
    """Overwrite all that was asked for; False when a reader or another process was in the way.

    engine: without foreign keys, with temporary tables in memory. Raises SQLAlchemyError.
    """
    try:
        requested = _rewrite_tables(engine)
    finally:
        truncated = truncate_log(engine)  # also after a failure: it may have been for want of room
    if truncated:
        _note_finished(engine, requested)
    return truncated


def _rewrite_tables(engine: Engine) -> int:
    """The number of the last request that this serves."""
    with engine.execution_options(writes=True).begin() as connection:
        requested, free_pages = connection.execute(select(ErasureRow.requested, ErasureRow.free_pages)).one()
        for table in _rewritten(connection):
            _rewrite(connection, table)
    if free_pages:
        _fill_free_pages(engine)
    return int(requested)


def truncate_log(engine: Engine) -> bool:
    """Bring the log's pages into the file and empty it; False when others keep it in use."""
    deadline = time.monotonic() + PATIENCE
    while not _checkpoint(engine):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _checkpoint(engine: Engine) -> bool:
    """Readers are waited for as long as the connection's time-out says."""
    with contextlib.closing(engine.raw_connection()) as raw:
        try:
            busy, _, _ = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            if code_of(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            return False
        return bool(busy == 0)


def _rewritten(connection: Connection) -> list[Table]:
    """The tables whose B-tree pages hold texts."""
    lead_fills_a_page = connection.exec_driver_sql("PRAGMA page_size").scalar_one() <= LEAD_BYTES
    return [table for table in Base.metadata.sorted_tables if not (lead_fills_a_page and "lead" in table.columns)]


def _rewrite(connection: Connection, table: Table) -> None:
    """Put the rows into new pages. DELETE without WHERE frees all pages of the table and its indexes at once."""
    for statement in (
        f"CREATE TEMPORARY TABLE rewritten AS SELECT * FROM main.{table.name} ORDER BY rowid",
        f"DELETE FROM main.{table.name}",
        f"INSERT INTO main.{table.name} SELECT * FROM rewritten ORDER BY rowid",
        "DROP TABLE rewritten",
    ):
        connection.exec_driver_sql(statement)


def _fill_free_pages(engine: Engine) -> None:
    """Take all free pages for rows of zeros, in steps that need little room in the log; then free them again."""
    writing = engine.execution_options(writes=True)
    with writing.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS zeros (filled BLOB)")
    while _fill_some(writing):
        truncate_log(engine)
    with writing.begin() as connection:
        connection.exec_driver_sql("PRAGMA secure_delete = OFF")  # they are zeros already
        connection.exec_driver_sql("DROP TABLE zeros")


def _fill_some(engine: Engine) -> bool:
    with engine.begin() as connection:
        free = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
        page = int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        # One more than there are, as the first bytes of a row lie in its B-tree page.
        size = (min(free, _FILLED_AT_ONCE) + 1) * page
        if free:
            connection.exec_driver_sql("INSERT INTO zeros VALUES (zeroblob(?))", (size,))
        return free > 0


def _note_finished(engine: Engine, requested: int) -> None:
    """Of requests that came meanwhile nothing is noted: they are still owed."""
    with engine.execution_options(writes=True).begin() as connection:
        done = update(ErasureRow).values(finished=requested)
        connection.execute(done)
        connection.execute(update(ErasureRow).where(ErasureRow.requested == requested).values(free_pages=False))
