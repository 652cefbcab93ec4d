"""A library with a settable clock."""

from datetime import UTC, datetime

import pytest

from storage.database import Database
from storage.storage import Storage
from tests.storage.speaking import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 8, 0, tzinfo=UTC))


@pytest.fixture
def storage(database: Database, clock: Clock) -> Storage:
    return Storage(database, clock)
