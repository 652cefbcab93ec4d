"""Processor time by test file and by test, including browsers and all other processes that tests start.

`make test ARGS="-p tests.support.costs"` prints the costliest ones at the end. Needs Linux's control groups, and root.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SHOWN = int(os.environ.get("REPRISE_COSTS_SHOWN", 40))
REST = "imports and collection"
_ALL = Path("/sys/fs/cgroup")
_FIRST_VERSION = _ALL / "cpuacct"  # of control groups; the second one has all controllers in one tree


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config), "costs of tests")


class Costs:
    """Counts seconds in each worker and sums those of all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: Any = Counter()  # by test; of floats, which the type Counter does not allow
        self._group = Group()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seconds.setdefault(REST, round(time.process_time()))
        before = self._group.seconds()
        found = yield
        self._seconds[item.nodeid] += self._group.seconds() - before
        return found

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._seconds.update(getattr(node, "workeroutput", {}).get("costs", {}))

    def pytest_sessionfinish(self) -> None:
        self._group.leave()
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["costs"] = dict(self._seconds)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: Counter[str] = Counter()
        for name, seconds in self._seconds.items():
            files[name.partition("::")[0]] += seconds
        for title, costs in (("files", files), ("tests", self._seconds)):
            terminalreporter.section(f"seconds of processor time, by {title}")
            for name, seconds in costs.most_common(SHOWN):
                terminalreporter.line(f"{seconds:8.1f}  {name}")
        terminalreporter.line(f"{self._seconds.total():8.1f}  in all")


class Group:
    """A control group of this process and of all that it starts from now on, also those that end or are killed."""

    def __init__(self) -> None:
        self._folder = (_FIRST_VERSION if _FIRST_VERSION.is_dir() else _ALL) / f"reprise-{os.getpid()}"
        try:
            self._folder.mkdir()
            self._enter(self._folder)
        except OSError as error:
            raise pytest.UsageError(
                f"Processor time is counted by control groups, as root on Linux: {error}"
            ) from error

    def seconds(self) -> float:
        """Return the processor time of the group so far."""
        if self._folder.parent == _FIRST_VERSION:
            return int((self._folder / "cpuacct.usage").read_text()) / 1e9
        usage = (self._folder / "cpu.stat").read_text().split()
        return int(usage[usage.index("usage_usec") + 1]) / 1e6

    def leave(self) -> None:
        """Return this process to the group of all. The own one goes unless a process is still in it."""
        self._enter(self._folder.parent)
        with suppress(OSError):
            self._folder.rmdir()

    @staticmethod
    def _enter(folder: Path) -> None:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
