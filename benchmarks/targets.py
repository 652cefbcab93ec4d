"""The targets of a GPU (an H200, at S2-Pro's sizes), and what the saved results say about them."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks._report import Cell

COLUMNS = ("target of a GPU", "wanted", "measured", "reached")
_NARROW = ("int8", "fp8")

Result = Mapping[str, Any]


def rows(folder: Path, since: int = 0) -> list[list[Cell]]:
    """Return a row for each target, from the GPU results in a folder. What is not measured has no value.

    since: in nanoseconds, as `time.time_ns`; results whose files are older count as not measured.
    """
    paths = {path.stem: path for path in folder.glob("*-cuda.json") if path.stat().st_mtime_ns >= since}
    return compare({name: json.loads(path.read_text("utf-8")) for name, path in paths.items()})


def compare(results: Mapping[str, Result]) -> list[list[Cell]]:
    """Return a row for each target, from results by the names of their files. What is not measured has no value."""
    found: list[list[Cell]] = []
    for name, wanted, result, measured in _TARGETS:
        of = results.get(f"{result}-cuda")
        values = list(measured(of)) if of is not None else []
        best = (max if wanted.startswith("≥") else min)(values) if values else None
        found.append([name, wanted, None if best is None else _shown(best), _reached(wanted, best)])
    return found


def _shown(value: float) -> str:
    if value == math.inf:
        return "does not fit"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _reached(wanted: str, value: float | None) -> str | None:
    if value is None:
        return None
    limit = float(wanted[1:].split()[0].replace(",", ""))
    return "yes" if (value >= limit if wanted.startswith("≥") else value <= limit) else "NO"


def _modes(*precisions: str) -> Callable[[str], Callable[[Result], Iterator[float]]]:
    def of(key: str) -> Callable[[Result], Iterator[float]]:
        return lambda found: (
            mode[key]
            for mode in found["sizes"].get("S2-Pro", {"modes": ()})["modes"]
            if mode["precision"] in precisions and key in mode
        )

    return of


def _percent(measured: Callable[[Result], Iterator[float]]) -> Callable[[Result], Iterator[float]]:
    return lambda found: (100 * value for value in measured(found))


def _saved_voice(found: Result) -> Iterator[float]:
    return (
        1000 * row["first_audio"]["median"]
        for row in found["rows"]
        if row["case"] == "a saved voice" and row["reference_s"] == 10
    )


def _codes(found: Result) -> Iterator[float]:
    return (row["codes_per_second"] for row in found["rows"] if row["real_time_factor"]["p99"] < 0.5)


def _factor_of_32(found: Result) -> Iterator[float]:
    return (row["real_time_factor"]["p99"] for row in found["rows"] if row["listeners"] == 32)


def _used(limit: float, *precisions: str) -> Callable[[Result], Iterator[float]]:
    """Measure the GiB in use on the GPU within a limit; infinite if the engine does not work within it."""
    return lambda found: (
        math.inf if "failed" in case else max(stage["used"] for stage in case["stages"].values()) / 1024
        for case in found["cases"]
        if case["precision"] in precisions and case["limit_gib"] == limit
    )


def _ready(start: str) -> Callable[[Result], Iterator[float]]:
    return lambda found: (
        of["ready_s"]
        for of in found["starts"]
        if of["start"] == start and of["precision"] not in _NARROW and not of["compiled"]
    )


_TARGETS: tuple[tuple[str, str, str, Callable[[Result], Iterator[float]]], ...] = (
    ("frames/s of one listener, bf16", "≥ 200", "floor", _modes("bf16")("frames_per_second")),
    ("frames/s of one listener, 8 bits", "≥ 350", "floor", _modes(*_NARROW)("frames_per_second")),
    ("share of the floor, bf16, %", "≥ 70", "floor", _percent(_modes("bf16")("share_of_floor"))),
    ("share of the floor later, bf16, %", "≥ 86", "floor", _percent(_modes("bf16")("share_of_floor"))),
    ("first audio of a saved voice, ms", "≤ 60", "first_audio", _saved_voice),
    ("codes/s at a real-time factor below 0.5", "≥ 10,000", "throughput", _codes),
    ("real-time factor of 32 listeners", "≤ 0.3", "throughput", _factor_of_32),
    ("GiB in use, card of 12 GiB, bf16", "≤ 12", "device_memory", _used(12, "bf16")),
    ("GiB in use, card of 8 GiB, 8 bits", "≤ 8", "device_memory", _used(8, *_NARROW)),
    ("s until ready after loading", "≤ 20", "ready", _ready("first")),
    ("s until ready after loading, second start", "≤ 10", "ready", _ready("second")),
)
