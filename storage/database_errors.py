"""Translation of database errors into DatabaseUnavailable and DiskFull.

The sentences are for users: they contain neither the database's location nor its own message. Both are in `detail` of
the error, for the log and the command line.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import SQLAlchemyError

from engine.errors import DatabaseUnavailable, DiskFull

_FULL = "The disk of the server is full: nothing was changed. Whoever runs the server has to make room."
_DAMAGED = "its file is damaged. Whoever runs the server has to restore it from a backup"
_UNUSABLE = "its file or folder cannot be read and written"
_SQLITE = {
    sqlite3.SQLITE_BUSY: "another program is using it. Try again in a moment",
    sqlite3.SQLITE_LOCKED: "another program is using it. Try again in a moment",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CANTOPEN: _UNUSABLE,
    sqlite3.SQLITE_READONLY: _UNUSABLE,
    sqlite3.SQLITE_PERM: _UNUSABLE,
    sqlite3.SQLITE_IOERR: "its disk reports an error",
}
_POSTGRESQL_DISK_FULL = "53100"


def unavailable(error: SQLAlchemyError | OSError, location: str) -> DatabaseUnavailable:
    """Return the error to raise from this one. location: file or URL of the database."""
    cause = error if isinstance(error, OSError) else getattr(error, "orig", None) or error
    detail = f"{location}: {reason_of(cause)}"
    if _disk_full(cause):
        return DiskFull(_FULL, detail=detail)
    return DatabaseUnavailable(f"The voice library cannot be used: {_words(cause)}.", detail=detail)


def damaged(what: str) -> DatabaseUnavailable:
    """Return the error for a database that contains `what`, which this package never writes."""
    return DatabaseUnavailable(f"The voice library cannot be used: {_DAMAGED}.", detail=f"It holds {what}.")


def code_of(error: BaseException | None) -> int | None:
    """Return SQLite's primary result code; None for other errors."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _disk_full(cause: BaseException) -> bool:
    return code_of(cause) == sqlite3.SQLITE_FULL or getattr(cause, "sqlstate", None) == _POSTGRESQL_DISK_FULL


def _words(cause: BaseException) -> str:
    if isinstance(cause, OSError):
        return _UNUSABLE
    if isinstance(cause, sqlite3.Error):
        # For text that is not UTF-8 the driver sets no code.
        code = code_of(cause)
        return _DAMAGED if code is None else _SQLITE.get(code, "the database reports an error")
    return "its server does not answer, or refuses"


def reason_of(error: BaseException) -> str:
    """Return the database's own message, without SQL and parameters, which contain what users typed."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, OSError):
        return cause.strerror or type(cause).__name__
    if isinstance(cause, sqlite3.Error):
        name = getattr(cause, "sqlite_errorname", None)
        return f"{cause} ({name})" if name else type(cause).__name__
    text = str(cause).strip()
    return text.splitlines()[0].rstrip(".") if text else type(cause).__name__
