"""The attack suite: python -m tests.attack [--only NAME] [--seed N] [--count N] [--case N] [--minutes M] [--document]

Runs in a new folder that is removed afterwards, against loopback only. Exit status 1 when anything was found; the
findings stay in a folder whose name is printed, each with the command that reproduces it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import _report
from tests.attack.running import guard, report
from tests.attack.running.inside import FINDINGS, RESULTS
from tests.attack.running.outcome import tally_of

ROOT = Path(__file__).parents[2]
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TERM", "PLAYWRIGHT_BROWSERS_PATH")


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="Attack Reprise.")
    parser.add_argument(
        "--only", action="append", default=[], help="an attack, or a module of several; may be given several times"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="cases of each attack instead of its own number")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="attacks at once")
    parser.add_argument("--minutes", type=float, default=5.0, help="of mixed load")
    parser.add_argument("--document", action="store_true", help="write the table into docs/security.md")
    return parser.parse_args(arguments)


def environment(folder: Path) -> dict[str, str]:
    """The environment of child processes: without settings, keys or folders of the user."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    places = {name: str(folder / "home") for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    (folder / "home").mkdir(exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    return {
        **kept,
        **places,
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "NUMBA_CACHE_DIR": str(folder / "home" / "numba"),  # else beside the sources of librosa
        "GRADIO_ANALYTICS_ENABLED": "False",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite. Returns the exit status."""
    options = parse_options(arguments)
    folder = Path(tempfile.mkdtemp(prefix="reprise-attack-")).resolve()
    before = guard.snapshot(ROOT)
    command = [
        sys.executable,
        "-c",
        "from tests.attack.running import inside; inside.main()",
        json.dumps(vars(options)),
    ]
    try:
        done = subprocess.run(command, cwd=folder, env=environment(folder), check=False)
        outside = guard.escapes(folder) + [f"changed: {path}" for path in guard.changed(before, guard.snapshot(ROOT))]
        if done.returncode or not (folder / RESULTS).exists():
            print(f"The attack ended by itself with exit code {done.returncode}.")
            return 2
        run = report.description(_report.machine(), options.seed)
        tallies = [tally_of({**values, "run": run}) for values in json.loads((folder / RESULTS).read_text("utf-8"))]
        kept = _move_findings(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.print_report(tallies)
    for what in outside:
        print(f"OUTSIDE OF ITS FOLDER: {what}")
    if kept:
        print(f"\nThe findings, each with the command that runs it again, are in {kept}.")
    found = outside or any(tally.wrong.total() for tally in tallies)
    if options.document:
        tallies = report.merged(tallies)
        report.document(tallies)
        _report.save("attack", report.payload(tallies, options.seed, outside))
    return 1 if found else 0


def _move_findings(folder: Path) -> Path | None:
    """Move the findings to a permanent folder; None when there are none."""
    if not (folder / FINDINGS).exists():
        return None
    place = Path(tempfile.mkdtemp(prefix="reprise-findings-"))
    shutil.move(folder / FINDINGS, place / FINDINGS)
    return place / FINDINGS


if __name__ == "__main__":
    sys.exit(main())
