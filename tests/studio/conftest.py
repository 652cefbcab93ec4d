"""An empty library in a file that is opened once: every opened one compiles its queries."""

import pytest

from storage import Storage
from storage.database import Database
from tests.storage.conftest import empty_tables, sqlite_database

__all__ = ["sqlite_database"]


@pytest.fixture
def storage(sqlite_database: Database) -> Storage:
    """An empty library, which tests must not close."""
    with sqlite_database.write() as session:
        empty_tables(session.connection())
    return Storage(sqlite_database)
