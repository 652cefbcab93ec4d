"""Options, tables and results shared by the speed benchmarks."""

import argparse
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import _report
from benchmarks._report import Cell, Threads


@dataclass(frozen=True)
class Table:
    """A table of figures. It is built only from a saved result, so that the printed and the published table are equal.

    notes: sentences below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()

    def show(self, threads: Threads = None) -> None:
        """Print the table below its title and a line about the machine, followed by the notes.

        threads: of the processes that measured, if not this one.
        """
        _report.print_table(self.title, self.columns, self.rows, threads)
        for note in self.notes:
            print(f"\n{note}", flush=True)

    def markdown(self) -> str:
        """Return the table and its notes as Markdown, without the title."""
        return "\n\n".join((_report.table(self.columns, self.rows), *self.notes))


def parser(description: str | None) -> argparse.ArgumentParser:
    """Create an option parser without options."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )


def device_parser(description: str | None, device: str = "auto") -> argparse.ArgumentParser:
    """Create an option parser with --device, whose value is a device of this machine. device: the default."""
    made = parser(description)
    which = "auto (a CUDA device where there is one), cpu or cuda:N; %(default)s by default"
    made.add_argument("--device", type=_device, default=device, help=which)
    return made


def engine_parser(description: str | None, device: str = "auto") -> argparse.ArgumentParser:
    """Create an option parser with --device and --model. The engine chooses its numbers of threads itself."""
    made = device_parser(description, device)
    made.add_argument("--model", default="bundled", help="a release: bundled, a folder or a Hub id")
    return made


def _device(text: str) -> str:
    from engine.errors import DeviceUnavailable
    from engine.serving.device import choose_device  # imports torch, which some benchmarks do not need

    try:
        return str(choose_device(text))
    except DeviceUnavailable as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def keep(name: str, found: Mapping[str, Any]) -> Path:
    """Save a result. Names of GPU results end in `-cuda`."""
    return _report.save(name + ("-cuda" if str(found["device"]).startswith("cuda") else ""), found)


def model_name(model: str | Path) -> str:
    """Return the model's name: only the last part of a path, because results are published."""
    return Path(model).name


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return the median and the worst (largest) value."""
    found = list(values)
    return {"median": statistics.median(found), "worst": max(found)}


def tail(values: Iterable[float]) -> dict[str, float]:
    """Return the median and the 99th percentile, which is the largest value if there are fewer than 100."""
    found = sorted(values)
    return {"median": statistics.median(found), "p99": found[math.ceil(0.99 * len(found)) - 1]}
