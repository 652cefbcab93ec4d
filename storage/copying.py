"""Copying a library between databases, with a check that nothing was lost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Table, func, insert, select
from sqlalchemy.orm import Session

from storage.database import Database
from storage.errors import LibraryError
from storage.models import Base, ErasureRow, StoredObjectRow
from storage.object_store import StoredSound, read_sound
from storage.repositories import secrets, stored_objects

Row = dict[str, Any]
CopyProgress = Callable[[str, int, int], None]  # the table, its rows so far, all its rows

AT_ONCE = 20  # rows, each with its sound
# The server's secrets are copied too, so that links and sessions stay valid.
CONTENT = {*Base.metadata.tables, secrets.SecretRow.__tablename__}
CONTENT -= {ErasureRow.__tablename__, StoredObjectRow.__tablename__}
SOUNDS = {"voice_references": "clip", "generation_audio": "audio", "consent_recordings": "recording"}


@dataclass(frozen=True)
class TableContent:
    """Number of rows, bytes of their sounds, and an order-independent digest of all their values."""

    rows: int = 0
    sounds: int = 0
    digest: int = 0

    def plus(self, row: Row, sound: str | None) -> TableContent:
        """Return the content with one more row. sound: the column of sound."""
        text = "\n".join(f"{name}={_canonical(row[name])}" for name in sorted(row))
        digest = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
        size = len(row[sound]) if sound else 0
        return TableContent(self.rows + 1, self.sounds + size, (self.digest + digest) % (1 << 256))


def copy_library(source: Database, target: Database, progress: CopyProgress | None = None) -> dict[str, TableContent]:
    """Copy everything from one database into an empty one in one transaction; return what was copied, by table.

    The written rows are read back and compared. If this raises, the target stays empty.
    Raises LibraryError for a target that is not empty, or if the copy differs; DatabaseUnavailable.
    """
    tables = [table for table in Base.metadata.sorted_tables if table.name in CONTENT]
    with source.read() as reading:
        counts = {table.name: _count(reading, table) for table in tables}
        with target.read() as session:
            if any(_count(session, table) for table in tables):
                raise LibraryError("The library to copy to is not empty: name a new file or an empty database.")
        with target.reserving(sum(counts[name] for name in SOUNDS)) as store, target.write_exclusively() as writing:
            copied: dict[str, TableContent] = {}
            for table in tables:
                content = TableContent()
                for rows in _batches(reading, table):
                    _write(writing, table, rows, store)
                    for row in rows:
                        content = content.plus(row, SOUNDS.get(table.name))
                    if progress:
                        progress(table.name, content.rows, counts[table.name])
                copied[table.name] = content
            writing.flush()
            different = [table.name for table in tables if _content(writing, table) != copied[table.name]]
            if different:
                raise LibraryError(f"The copy differs from the library in {', '.join(different)}, and was undone.")
    return copied


def _count(session: Session, table: Table) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0


def _batches(session: Session, table: Table) -> Iterator[list[Row]]:
    """Yield a table's rows with their sounds, wherever these are stored, without columns that differ by database."""
    columns = [column for column in table.columns if column.name != "lead"]
    sound = SOUNDS.get(table.name)
    found = session.execute(select(*columns).order_by(*table.primary_key).execution_options(yield_per=AT_ONCE))
    for part in found.mappings().partitions():
        rows = [dict(row) for row in part]
        for row in rows:
            if sound:
                row[sound] = read_sound(session.info, row[sound], row.pop("object"))
        yield rows


def _write(session: Session, table: Table, rows: list[Row], store: Callable[[bytes], StoredSound]) -> None:
    sound = SOUNDS.get(table.name)
    if sound is None:
        session.execute(insert(table), rows)
        return
    stored = [store(row[sound]) for row in rows]
    values = [{**row, sound: each.data, "object": each.object} for row, each in zip(rows, stored, strict=True)]
    session.execute(insert(table), values)
    stored_objects.keep(session=session, sounds=stored)


def _content(session: Session, table: Table) -> TableContent:
    content = TableContent()
    for rows in _batches(session, table):
        for row in rows:
            content = content.plus(row, SOUNDS.get(table.name))
    return content


def _canonical(value: object) -> str:
    """Return a value as text that is the same for every database."""
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return repr(value)
