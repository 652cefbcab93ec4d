"""Copies of a SQLite library, made while it may be in use."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.errors import DatabaseUnavailable
from storage import migrations
from storage.database_errors import unavailable


def back_up(database: Path, target: Path) -> None:
    """Copy a database and check the copy: SQLite copies damaged pages without an error.

    Raises DatabaseUnavailable, sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        if not is_whole(copy):
            raise DatabaseUnavailable("database.damaged", detail=f"{database} is not saved.")


def is_whole(database: sqlite3.Connection) -> bool:
    """Check all pages of a database. Raises sqlite3.Error."""
    return database.execute("PRAGMA quick_check").fetchall() == [("ok",)]


@contextlib.contextmanager
def unmigrated(database: Path) -> Iterator[Path]:
    """Yield a library to open without migrating it: its file, or a temporary copy if an older version wrote it.

    Raises DatabaseUnavailable.
    """
    if not migrations.is_older(_versions(database)):
        yield database
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, database.name)
        try:
            back_up(database, copy)
        except sqlite3.Error as error:
            raise unavailable(error, str(database)) from error
        yield copy


def _versions(database: Path) -> frozenset[str]:
    """Return the versions of a library; none for another file, which is refused when it is opened."""
    with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(sqlite3.connect(database)) as connection:
        found = connection.execute(f"SELECT version_num FROM {migrations.VERSION_TABLE}")
        return frozenset(version for (version,) in found)
    return frozenset()
