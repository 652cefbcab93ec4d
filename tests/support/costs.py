"""Processor time by test file and by test, including browsers and other child processes.

`make test ARGS="-p tests.support.costs"` prints the costliest ones at the end.
"""

import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHOWN = int(os.environ.get("REPRISE_COSTS_SHOWN", 40))
REST = "imports and collection"
_TICKS = os.sysconf("SC_CLK_TCK")  # per second


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config), "costs of tests")


class Costs:
    """Counts seconds in each worker and sums those of all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: Counter[str] = Counter()  # by test

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._seconds.setdefault(REST, round(processor_time()))
        before = processor_time()
        found = yield
        # A process whose parent is killed leaves the process tree, and its time is no longer counted.
        self._seconds[item.nodeid] += max(0.0, processor_time() - before)
        return found

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._seconds.update(getattr(node, "workeroutput", {}).get("costs", {}))

    def pytest_sessionfinish(self) -> None:
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


def processor_time() -> float:
    """Processor time in seconds of this process, its ended children, and its running process tree."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(_of_tree, _children(os.getpid())))


def _children(process: int) -> list[int]:
    try:
        return [
            int(child)
            for thread in Path(f"/proc/{process}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except OSError:  # the process has ended, or the system has no such files
        return []


def _of_tree(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(_of_tree, _children(process)))
