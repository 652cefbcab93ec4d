"""A library in a real file; folders in memory; property tests without deadlines, since machines are busy."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from storage import Storage, VoiceLibrary
from tests.paths import FIXTURES, ROOT, in_memory
from tests.support.quick_migrations import quick_migrations

if TYPE_CHECKING:
    from engine import Engine

# Nothing that is imported is garbage, but to find that out takes seconds; see `pytest_collection_finish`.
gc.disable()
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# Gradio asks Matplotlib for its backend, and Matplotlib imports all of itself to choose one.
os.environ.setdefault("MPLBACKEND", "agg")
# Without a GPU, Triton's kernels run in its interpreter.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
# Gradio takes the first free port from here; two workers would now and then choose the same at once.
os.environ.setdefault("GRADIO_SERVER_PORT", str(7860 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])))
# An HTTP client reads all certificate authorities when it is made. Tests speak to nobody outside: a folder without any.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(FIXTURES)

if memory := in_memory(room=4 << 30):
    # Databases sync with every commit, which on a disk takes longer than the tests.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first: one that began last would keep a single core busy while the others rest.

    The others are mixed, always in the same way, so that tests that wait run beside tests that compute. Tests with a
    browser run once more when they fail, and the summary names them: on a busy machine a browser can lose an event.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, zlib.crc32(str(item.path.relative_to(ROOT)).encode())))
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """Leave what is imported out of all garbage collections, which would spend most of their time on it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def databases_made_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """New databases get their tables without Alembic, except in modules that set MIGRATES."""
    with nullcontext() if getattr(request.module, "MIGRATES", False) else quick_migrations():
        yield


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage.open(tmp_path / "voices.db") as opened:
        yield opened


@pytest.fixture
def library(storage: Storage) -> VoiceLibrary:
    return storage.voices


@pytest.fixture(scope="session")
def bundled_engine() -> Iterator[Engine]:
    """The bundled model, loaded once for all tests."""
    from engine import Engine

    engine = Engine.load("bundled", "cpu", slots=2)
    yield engine
    engine.close()
