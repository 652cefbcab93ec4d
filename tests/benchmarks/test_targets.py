"""Each target is read from its result, and missing results are no successes."""

import json
from pathlib import Path
from typing import Any

from benchmarks import targets


def write(folder: Path, **results: dict[str, Any]) -> None:
    for name, found in results.items():
        (folder / f"{name}-cuda.json").write_text(json.dumps(found))


def mode(precision: str, speed: float, share: float) -> dict[str, Any]:
    return {"mode": "m", "precision": precision, "frames_per_second": speed, "share_of_floor": share}


def test_nothing_is_reached_without_results(tmp_path: Path) -> None:
    rows = targets.rows(tmp_path)
    assert len(rows) == 11
    assert {(row[2], row[3]) for row in rows} == {(None, None)}


def test_targets_are_compared_with_results(tmp_path: Path) -> None:
    modes = [mode("bf16", 90, 0.3), mode("bf16", 210, 0.72), mode("fp8", 340, 0.5), {"precision": "int8", "mode": "m"}]
    take = {"codes_per_second": 12_000, "listeners": 32, "real_time_factor": {"p99": 0.31}}
    late = {"codes_per_second": 20_000, "listeners": 64, "real_time_factor": {"p99": 0.6}}
    first = {"case": "a saved voice", "reference_s": 10.0, "first_audio": {"median": 0.05}}
    case = {"precision": "bf16", "limit_gib": 12.0, "stages": {"weights": {"used": 9000}, "speaking": {"used": 11_000}}}
    start = {"start": "first", "precision": "bf16", "compiled": False, "ready_s": 15}
    write(
        tmp_path,
        floor={"sizes": {"S2-Pro": {"modes": modes}}},
        throughput={"rows": [take, late]},
        first_audio={"rows": [first, {**first, "case": "cold", "first_audio": {"median": 0.01}}]},
        device_memory={"cases": [case, {"precision": "int8", "limit_gib": 8.0, "stages": {}, "failed": "no room"}]},
        ready={"starts": [start, {**start, "start": "second", "ready_s": 11}, {**start, "precision": "int8"}]},
    )
    assert [(row[2], row[3]) for row in targets.rows(tmp_path)] == [
        ("210", "yes"),
        ("340", "NO"),
        ("72", "yes"),
        ("72", "NO"),
        ("50", "yes"),
        ("12,000", "yes"),
        ("0.31", "NO"),
        ("10.7", "yes"),
        ("does not fit", "NO"),
        ("15", "yes"),
        ("11", "NO"),
    ]
