"""What the speed benchmarks have in common: their options, tables, and results."""

import argparse
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import _report
from benchmarks._report import Cell


@dataclass(frozen=True)
class Table:
    """A table of figures, made from a result alone, so that what is printed and what is published are the same.

    notes: sentences that belong below it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()

    def show(self) -> None:
        """Prints it under its title and the machine's line."""
        _report.print_table(self.title, self.columns, self.rows)
        for note in self.notes:
            print(f"\n{note}", flush=True)

    def markdown(self) -> str:
        """The table and its notes, without the title."""
        return "\n\n".join((_report.table(self.columns, self.rows), *self.notes))


def parser(description: str | None) -> argparse.ArgumentParser:
    """A benchmark's options, with --device."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--device", default="auto", help="auto (a CUDA device where there is one), cpu or cuda:N")
    return made


def engine_parser(description: str | None) -> argparse.ArgumentParser:
    """The same with --model. How many threads an engine's frames and sound have, it decides itself."""
    made = parser(description)
    made.add_argument("--model", default="bundled", help="a release: bundled, a folder or a Hub id")
    return made


def keep(name: str, found: Mapping[str, Any]) -> Path:
    """Saves a result; one of a GPU under a name of its own, beside that of the CPU."""
    return _report.save(name + ("-cuda" if str(found["device"]).startswith("cuda") else ""), found)


def model_name(model: str | Path) -> str:
    """Of a folder, only what it is called: results are published."""
    return Path(model).name


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median and worst, the worst being the largest."""
    found = list(values)
    return {"median": statistics.median(found), "worst": max(found)}


def tail(values: Iterable[float]) -> dict[str, float]:
    """Median and 99th percentile: what 99 of 100 keep within, so that of fewer it is the largest."""
    found = sorted(values)
    return {"median": statistics.median(found), "p99": found[math.ceil(0.99 * len(found)) - 1]}
