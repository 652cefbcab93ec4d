"""Reports of a benchmark run: machine, versions and date, a Markdown table and a JSON file."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
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


def machine(device: str = "cuda") -> dict[str, Any]:
    """Return the machine and the package versions of this run, as plain JSON values. device: names the GPU, if any."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpu": _gpu(device),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": _torch_threads(),
        "packages": _versions(),
    }


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a Markdown table below its title and a line about the machine. Columns are padded for terminals.

    Raises ValueError when a row's number of cells differs from the number of columns.
    """
    print(f"\n{title}\n{describe(machine())}\n")
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
        parts.insert(2, f"{of['threads']} thread{'s' if of['threads'] != 1 else ''}")
    return " · ".join(parts)


def save(name: str, payload: Mapping[str, Any]) -> Path:
    """Write the payload, with the machine under "machine", to `results/<name>.json`. Return the path.

    The file is replaced atomically, so an interrupted run leaves the previous file.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    fresh = path.with_suffix(".json.new")
    about = machine(str(payload.get("device", "cuda")))
    fresh.write_text(json.dumps({"machine": about, **payload}, indent=1, sort_keys=False) + "\n", "utf-8")
    fresh.replace(path)
    print(f"\nkept in benchmarks/results/{path.name}", flush=True)
    return path


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


def _torch_threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
