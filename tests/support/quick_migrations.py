"""Fast migrations: statements that Alembic executed once on an empty database are replayed on all others.

Otherwise Alembic would take most of the time of a test with its own database.
"""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest import mock

from sqlalchemy import Connection, event

from storage import migrations

Statement = tuple[Any, ...]  # a statement and, if it has any, its parameters

alembic = migrations.upgrade
_executed: dict[str, list[Statement]] = {}  # by dialect
_recording = threading.Lock()


@contextmanager
def quick_migrations() -> Iterator[None]:
    """Create new databases quickly; existing ones are upgraded with Alembic."""
    with mock.patch.object(migrations, "upgrade", _upgrade):
        yield


def _upgrade(connection: Connection) -> None:
    if migrations.refuse_newer(connection):
        return alembic(connection)
    with _recording:
        known = _executed.get(connection.dialect.name)
        if known is None:
            _executed[connection.dialect.name] = _record(connection)
            return None
    with closing(connection.connection.cursor()) as cursor:  # the driver's own, in half the time of SQLAlchemy's
        for each in known:
            cursor.execute(*each)
    return None


def _record(connection: Connection) -> list[Statement]:
    executed: list[Statement] = []

    def note(_: Connection, __: object, statement: str, parameters: Any, ___: object, many: bool) -> None:
        assert not many
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA", "BEGIN")):
            executed.append((statement, parameters) if parameters else (statement,))

    event.listen(connection, "before_cursor_execute", note)
    try:
        alembic(connection)
    finally:
        event.remove(connection, "before_cursor_execute", note)
    return executed
