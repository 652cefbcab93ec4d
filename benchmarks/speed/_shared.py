"""Options, tables and results shared by the speed benchmarks."""

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
    """A table of figures, made from a result only, so that the printed and the published table are the same.

    notes: sentences below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()

    def show(self) -> None:
        """Print the table under its title and the machine's line."""
        _report.print_table(self.title, self.columns, self.rows)
        for note in self.notes:
            print(f"\n{note}", flush=True)

    def markdown(self) -> str:
        """The table and its notes, without the title."""
        return "\n\n".join((_report.table(self.columns, self.rows), *self.notes))


def parser(description: str | None) -> argparse.ArgumentParser:
    """An option parser with --device."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--device", default="auto", help="auto (a CUDA device where there is one), cpu or cuda:N")
    return made


def engine_parser(description: str | None) -> argparse.ArgumentParser:
    """The same with --model. The engine chooses its numbers of threads itself."""
    made = parser(description)
    made.add_argument("--model", default="bundled", help="a release: bundled, a folder or a Hub id")
    return made


def keep(name: str, found: Mapping[str, Any]) -> Path:
    """Save a result. GPU results have their own name."""
    return _report.save(name + ("-cuda" if str(found["device"]).startswith("cuda") else ""), found)


def model_name(model: str | Path) -> str:
    """The model's name; of a folder only its last part, because results are published."""
    return Path(model).name


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median and worst, the worst being the largest."""
    found = list(values)
    return {"median": statistics.median(found), "worst": max(found)}


def tail(values: Iterable[float]) -> dict[str, float]:
    """Median and 99th percentile; with fewer than 100 values the percentile is the largest."""
    found = sorted(values)
    return {"median": statistics.median(found), "p99": found[math.ceil(0.99 * len(found)) - 1]}
