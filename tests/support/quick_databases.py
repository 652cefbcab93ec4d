"""Quick SQLite files: new ones get the tables of the first one, and all share their compiled queries.

Otherwise Alembic and compiling queries would take most of the time of a test with its own database.
"""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest import mock

from sqlalchemy import Connection, Engine, create_engine

from storage import migrations

alembic = migrations.upgrade
_tables: list[str] = []  # statements that create the tables of the head revision, and their first rows
_migrating = threading.Lock()
_queries: dict[Any, Any] = {}
_engine = create_engine("sqlite://")
_engine.connect().close()  # initializes its dialect
_engine.dispose()


@contextmanager
def quick_databases() -> Iterator[None]:
    """Create new SQLite files quickly; other databases are made and upgraded with Alembic."""
    with (
        mock.patch.object(migrations, "upgrade", _upgrade),
        mock.patch("storage.sqlite.connection.create_engine", _create_engine),
    ):
        yield


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name != "sqlite" or migrations.refuse_newer(connection):
        return alembic(connection)
    with _migrating:
        if not _tables:
            alembic(connection)
            file: Any = connection.connection.driver_connection
            _tables.extend(each for each in file.iterdump() if each not in ("BEGIN TRANSACTION;", "COMMIT;"))
            return None
    with closing(connection.connection.cursor()) as cursor:  # the driver's own, in half the time of SQLAlchemy's
        for statement in _tables:
            cursor.execute(statement)
    return None


def _create_engine(*arguments: Any, **options: Any) -> Engine:
    """Create an engine with the dialect of all others, since compiled queries belong to a dialect."""
    assert options.keys() <= {"poolclass", "hide_parameters", "connect_args"}, "a dialect's options would be lost"
    made = create_engine(*arguments, execution_options={"compiled_cache": _queries}, **options)
    made.dialect = _engine.dialect
    return made
