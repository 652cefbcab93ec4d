"""Copies of a SQLite library, made while it may be in use."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from storage import migrations
from storage.database_errors import code_of, unavailable
from storage.errors import DatabaseUnavailable


def back_up(database: Path, target: Path) -> None:
    """Copy a database and check the copy: SQLite copies damaged pages without an error.

    Raises DatabaseUnavailable, sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        if not is_whole(copy):
            raise DatabaseUnavailable("database.damaged", detail=f"{database}: SQLite finds damaged pages.")


def is_whole(database: sqlite3.Connection) -> bool:
    """Check all pages of a database. Raises sqlite3.Error."""
    return database.execute("PRAGMA quick_check").fetchall() == [("ok",)]


@contextlib.contextmanager
def unmigrated(database: Path) -> Iterator[Path]:
    """Yield a library to open without migrating it: its file, or a temporary copy if an older version wrote it.

    Raises DatabaseUnavailable.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, database.name)
        try:
            older = migrations.is_older(_versions(database))
            if older:
                back_up(database, copy)
        except sqlite3.Error as error:
            raise unavailable(error, str(database)) from error
        yield copy if older else database


def _versions(database: Path) -> frozenset[str]:
    """Return the versions of a library; none for anything else, which is refused when it is opened.

    Raises sqlite3.Error.
    """
    if not database.is_file():
        return frozenset()
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            named = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [migrations.VERSION_TABLE])
            if named.fetchone() is None:
                return frozenset()
            found = connection.execute(f"SELECT version_num FROM {migrations.VERSION_TABLE}")
            return frozenset(version for (version,) in found)
    except sqlite3.DatabaseError as error:
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            return frozenset()
        raise
