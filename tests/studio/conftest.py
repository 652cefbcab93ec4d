"""A library in a file that is opened once for each module: every opened one compiles its queries."""

from collections.abc import Iterator

import pytest

from storage import Storage
from storage.database import Database
from tests.storage.conftest import empty_tables


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = Database.open(tmp_path_factory.mktemp("library") / "voices.db", busy_timeout=10.0)
    yield opened
    opened.close()


@pytest.fixture
def storage(database: Database) -> Storage:
    """An empty library, which tests must not close."""
    with database.write() as session:
        empty_tables(session.connection())
    return Storage(database)
