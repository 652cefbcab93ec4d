"""Translation of database errors into DatabaseUnavailable and DiskFull.

The sentences are for users: they contain neither the database's location nor its own message. Both are in `detail` of
the error, for the log and the command line.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import SQLAlchemyError

from storage.errors import DatabaseUnavailable, DiskFull

_SQLITE = {
    sqlite3.SQLITE_BUSY: "database.busy",
    sqlite3.SQLITE_LOCKED: "database.busy",
    sqlite3.SQLITE_CORRUPT: "database.damaged",
    sqlite3.SQLITE_NOTADB: "database.damaged",
    sqlite3.SQLITE_CANTOPEN: "database.unusable",
    sqlite3.SQLITE_READONLY: "database.unusable",
    sqlite3.SQLITE_PERM: "database.unusable",
    sqlite3.SQLITE_IOERR: "database.disk_error",
}
READ_ONLY = "25006"  # PostgreSQL's code of a change that a standby refuses
_POSTGRESQL_DISK_FULL = "53100"
_POSTGRESQL_TABLE_EXISTS = "42P07"  # only when a library is created
# Classes of PostgreSQL's codes.
_POSTGRESQL_CONSTRAINTS = "23"  # violated ones
_POSTGRESQL_ROLLBACK = "40"  # because of another transaction, as in a deadlock


def unavailable(error: SQLAlchemyError | sqlite3.Error | OSError, location: str) -> DatabaseUnavailable:
    """Return the error to raise from this one. location: file or URL of the database."""
    cause = error if isinstance(error, OSError) else getattr(error, "orig", None) or error
    detail = f"{location}: {reason_of(cause)}"
    if _disk_full(cause):
        return DiskFull("database.full", detail=detail)
    return DatabaseUnavailable(_key(cause), detail=detail)


def damaged(what: str) -> DatabaseUnavailable:
    """Return the error for a database that contains `what`, which this package never writes."""
    return DatabaseUnavailable("database.damaged", detail=f"It holds {what}.")


def code_of(error: BaseException | None) -> int | None:
    """Return SQLite's primary result code; None for other errors."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _disk_full(cause: BaseException) -> bool:
    return code_of(cause) == sqlite3.SQLITE_FULL or sqlstate(cause) == _POSTGRESQL_DISK_FULL


def sqlstate(cause: BaseException) -> str:
    """Return PostgreSQL's code of an error; empty for other errors and a lost connection."""
    return getattr(cause, "sqlstate", None) or ""


def _key(cause: BaseException) -> str:
    if isinstance(cause, OSError):
        return "database.unusable"
    if isinstance(cause, sqlite3.Error):
        # For text that is not UTF-8 the driver sets no code.
        code = code_of(cause)
        return "database.damaged" if code is None else _SQLITE.get(code, "database.error")
    if sqlstate(cause) == _POSTGRESQL_TABLE_EXISTS:
        return "database.other_program"
    if sqlstate(cause).startswith(_POSTGRESQL_CONSTRAINTS):
        return "database.error"
    return "database.busy" if sqlstate(cause).startswith(_POSTGRESQL_ROLLBACK) else "database.no_answer"


def reason_of(error: BaseException) -> str:
    """Return the database's own message, without SQL and parameters, which contain user input."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, OSError):
        return cause.strerror or type(cause).__name__
    if isinstance(cause, sqlite3.Error):
        name = getattr(cause, "sqlite_errorname", None)
        return f"{cause} ({name})" if name else type(cause).__name__
    text = str(cause).strip()
    return text.splitlines()[0].rstrip(".") if text else type(cause).__name__
