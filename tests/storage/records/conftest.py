"""A library with a settable clock."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from storage.storage import Storage
from tests.storage.speaking import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 8, 0, tzinfo=UTC))


@pytest.fixture
def storage(url: str, clock: Clock) -> Iterator[Storage]:
    with Storage.open(url, clock=clock) as opened:
        yield opened
