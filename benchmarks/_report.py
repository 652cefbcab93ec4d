"""Reports of a benchmark run: machine, versions and date, a Markdown table and a JSON file."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    "torch",
    "torchaudio",
    "torchao",
    "triton",
    "numpy",
    "faster-whisper",
    "pocketsphinx",
    "resemblyzer",
    "speechmos",
    "pyworld",
)
_ROOT = Path(__file__).parents[1]

Cell = str | int | float | None
Threads = int | list[int] | None
"""Number of torch's threads, or the numbers of several processes; None if it is not known."""


def machine(device: str = "cuda", threads: Threads = None) -> dict[str, Any]:
    """Return the machine and the package versions of this run, as plain JSON values.

    device: names the GPU, if any. threads: of the processes that measured, if not this one.
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpu": _gpu(device),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": torch_threads() if threads is None else threads,
        "packages": _versions(),
    }


def torch_threads() -> int | None:
    """Return the number of torch's threads in this process; None if it has not imported torch."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def common_threads(counts: Iterable[int | None]) -> Threads:
    """Return the number of threads of several processes, or their numbers if these differ."""
    known = sorted({count for count in counts if count is not None})
    return known[0] if len(known) == 1 else known or None


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], threads: Threads = None) -> None:
    """Print a Markdown table below its title and a line about the machine. Columns are padded for terminals.

    threads: of the processes that measured, if not this one. Raises ValueError when a row's number of cells differs
    from the number of columns.
    """
    print(f"\n{title}\n{describe(machine(threads=threads))}\n")
    print(table(columns, rows), flush=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a Markdown table. The first column is aligned left, all others right."""
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"{len(columns)} columns, but a row of {len(row)}: {row!r}")
    cells = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(3, *(len(line[i]) for line in cells)) for i in range(len(columns))]
    lines = [_line(line, widths) for line in cells]
    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


VIEW_COLUMNS = ["view", "weights, MiB", "process grew, MiB", "bit-identical to the whole"]


def view_rows(views: Mapping[str, Mapping[str, Any]]) -> list[list[Cell]]:
    """Return rows for VIEW_COLUMNS from the figures of a codec's views by name."""
    exact = {None: None, True: "yes", False: "NO"}
    return [
        [name, f"{of['weights_mib']:,.1f}", f"{of['loaded_mib']:,.1f}", exact[of.get("bit_identical")]]
        for name, of in views.items()
    ]


def describe(of: Mapping[str, Any]) -> str:
    """Describe a machine in one line, given the result of `machine()`."""
    parts = [
        str(of["date"])[:10],
        f"{of['processor']}, {of['cores']} core{'s' if of['cores'] != 1 else ''}",
        str(of["gpu"]) if of["gpu"] else "no GPU",
        f"Python {of['python']}",
        *(f"{name} {version}" for name, version in of["packages"].items()),
    ]
    if of["threads"] is not None:
        parts.insert(2, _describe_threads(of["threads"]))
    return " · ".join(parts)


def save(name: str, payload: Mapping[str, Any]) -> Path:
    """Write the payload, with the machine under "machine", to `results/<name>.json`. Return the path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = write(RESULTS / f"{name}.json", payload)
    print(f"\nkept in benchmarks/results/{path.name}", flush=True)
    return path


def write(path: Path, payload: Mapping[str, Any]) -> Path:
    """Write the payload, with the machine under "machine", to a file. Return its path.

    The machine's threads are those of the payload, if it has "threads". The file is replaced atomically, so an
    interrupted run leaves the previous file.
    """
    fresh = path.with_suffix(".json.new")
    about = machine(str(payload.get("device", "cuda")), payload.get("threads"))
    fresh.write_text(json.dumps({"machine": about, **payload}, indent=1, sort_keys=False) + "\n", "utf-8")
    fresh.replace(path)
    return path


def _describe_threads(threads: int | list[int]) -> str:
    counts = [threads] if isinstance(threads, int) else threads
    return f"{' or '.join(map(str, counts))} thread{'s' if counts[-1] != 1 else ''}"


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if i == 0 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "| " + " | ".join([first, *rest]) + " |"


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux; use the standard library's name
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _gpu(device: str) -> str | None:
    # A benchmark that has not imported torch has not used a GPU, so do not import torch here.
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name(device if device.startswith("cuda") else None))


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
