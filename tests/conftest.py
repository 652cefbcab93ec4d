"""A library in a real file, temporary folders in memory, and property tests without deadlines."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import web  # noqa: F401 - before Gradio, for a quick import
from tests.paths import FIXTURES, ROOT, in_memory

if TYPE_CHECKING:
    from engine import Engine
    from storage import Storage, VoiceLibrary

# Imported objects are not garbage, but collections would spend seconds on them; see `quick_gc`.
gc.disable()
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# Gradio reads Matplotlib's backend, and without this Matplotlib imports all of itself to choose one.
os.environ.setdefault("MPLBACKEND", "agg")
# Without a GPU, Triton's kernels run in its interpreter.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
# Gradio takes the first free port from here; two workers with the same start could choose the same port. Not a
# default, because workers inherit the environment of the process that starts them.
os.environ["GRADIO_SERVER_PORT"] = str(7860 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]))
# An HTTP client reads all certificate authorities when it is created. Tests need none: use a folder without any.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(FIXTURES)

WAITING = frozenset({"chromium", "server"})  # fixtures of tests that wait for another process or thread

if memory := in_memory(room=4 << 30):
    # Databases sync at every commit, which takes longer than the tests on a disk.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores, because tests wait a third of their time, for sound and for browsers."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins with another part of a folder: otherwise all of them would compile the same new modules."""
    report = yield
    if isinstance(collector, pytest.Directory) and "PYTEST_XDIST_WORKER_COUNT" in os.environ:
        worker, workers = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        first = len(report.result) * worker // workers
        report.result = report.result[first:] + report.result[:first]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, and none that waits for a browser or a server last: one core would be idle.

    Otherwise files are shuffled deterministically, so that waiting tests run beside computing ones. Tests with a
    browser run once more when they fail, and the summary names them: on a busy machine a browser can lose an event.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    waiting = {item.path for item in items if not WAITING.isdisjoint(getattr(item, "fixturenames", ()))}

    def place(item: pytest.Item) -> tuple[bool, float]:
        shuffled = zlib.crc32(str(item.path.relative_to(ROOT)).encode()) / 2**32
        return item.path not in slow, 0.8 * shuffled if item.path in waiting else shuffled

    items.sort(key=place)
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell why a test that ran once more failed the first time."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first attempt of {report.nodeid}")
        terminalreporter.line(report.longreprtext)


def pytest_collection_finish() -> None:
    """Collect garbage again: nearly all modules are imported, and collections leave out what exists now."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def quick_gc() -> None:
    """Exclude what exists before a module, mostly imported objects, from garbage collections: one would take 0.7 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def quick_databases(request: pytest.FixtureRequest) -> Iterator[None]:
    """New SQLite files get their tables without Alembic, except in modules that set MIGRATES.

    A machine that is rented for its GPU may have no packages for databases.
    """
    quick: Callable[[], AbstractContextManager[None]] = nullcontext
    if not getattr(request.module, "MIGRATES", False):
        with suppress(ImportError):
            from tests.support.quick_databases import quick_databases as quick
    with quick():
        yield


@pytest.fixture(autouse=True)
def prepared_gpu(request: pytest.FixtureRequest) -> None:
    """Tests that need a GPU run with the settings that an engine gives to torch."""
    if request.node.get_closest_marker("gpu") is not None:
        import torch

        from engine.serving.device import prepare_device

        prepare_device(torch.device("cuda:0"))


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    from storage import Storage

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
