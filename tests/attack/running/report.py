"""The results table of a run: for the terminal, as JSON, and in docs/security.md."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import _report
from benchmarks._report import Cell
from tests.attack.running.outcome import WRONG, Tally, tally_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
BEGIN, END = "<!-- attack -->", "<!-- /attack -->"
COLUMNS = ("attack", "tries", "wrong answer", "too slow", "too large", "died", "slowest", "largest growth")


def rows(tallies: Sequence[Tally]) -> list[list[Cell]]:
    """One row per attack, then the sum."""
    listed = [_row(tally) for tally in tallies]
    total: list[Cell] = ["all", f"{sum(tally.tries for tally in tallies):,}"]
    total += [sum(tally.wrong[kind] for tally in tallies) for kind in WRONG]
    return [*listed, [*total, None, None]]


def _row(tally: Tally) -> list[Cell]:
    if not tally.tries and tally.skipped:
        return [f"{tally.name}: {tally.what}", "not run", *([None] * (len(COLUMNS) - 2))]
    wrong = [tally.wrong[kind] for kind in WRONG]
    grown = f"{tally.megabytes:.0f} MB" if tally.megabytes else None
    return [f"{tally.name}: {tally.what}", f"{tally.tries:,}", *wrong, f"{tally.seconds:.1f} s", grown]


def notes(tallies: Sequence[Tally]) -> list[str]:
    """Attacks that were skipped, and why."""
    return [f"{tally.name}: {reason}" for tally in tallies for reason in tally.skipped]


def description(machine: Mapping[str, Any], seed: int) -> str:
    """Return a run in one line: date, machine, versions and seed."""
    return f"{_report.describe(machine)} · seed {seed}"


def payload(tallies: Sequence[Tally], seed: int, outside: Sequence[str]) -> dict[str, Any]:
    """The tallies as JSON values."""
    return {"seed": seed, "attacks": [tally.values() for tally in tallies], "outside": list(outside)}


def merged(tallies: Sequence[Tally]) -> list[Tally]:
    """The kept tallies, with those of this run in their places."""
    path = _report.RESULTS / "attack.json"
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {"attacks": []}
    before = [tally_of({"run": description(kept["machine"], kept["seed"]), **values}) for values in kept["attacks"]]
    by_name = {tally.name: tally for tally in (*before, *tallies)}
    return list(by_name.values())


def print_report(tallies: Sequence[Tally]) -> None:
    _report.print_table("The attack", COLUMNS, rows(tallies))
    for note in notes(tallies):
        print(f"- {note}")


def document(tallies: Sequence[Tally]) -> None:
    """Write the table between the markers of docs/security.md, below the run of most of its rows.

    Rows of other runs are named below the table, with their runs. Raises ValueError when there are no markers.
    """
    text = DOCUMENT.read_text("utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{DOCUMENT} has no {BEGIN} … {END} to put the table into.")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    run = Counter(tally.run for tally in tallies).most_common(1)[0][0]
    others = [f"{tally.name}: {tally.run}" for tally in tallies if tally.run != run]
    listed = "".join(f"\n- {note}" for note in (*notes(tallies), *others))
    said = f"{run}\n\n{_report.table(COLUMNS, rows(tallies))}\n{listed}"
    DOCUMENT.write_text(f"{before}{BEGIN}\n{said.rstrip()}\n{END}{after}", "utf-8")
