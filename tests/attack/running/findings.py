"""Findings on disk: the case, its outcome, and the command that reproduces it."""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.attack.attack import Attack
from tests.attack.running.outcome import Outcome

_SHOWN = 4_000  # characters of a case's representation
MOST = 20  # findings saved per attack and kind


class Findings:
    """A folder of findings. `folder`: created with the first finding."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._kept: dict[tuple[str, str], int] = {}

    def keep(self, attack: Attack, index: int, case: Any, outcome: Outcome) -> Path | None:
        """Save a finding. Returns its folder, or None when there are enough of its kind."""
        kind = attack.name, outcome.kind
        self._kept[kind] = self._kept.get(kind, 0) + 1
        if self._kept[kind] > MOST:
            return None
        place = self._folder / f"{attack.name.replace(' ', '-')}-{self._seed}-{index}"
        place.mkdir(parents=True, exist_ok=True)
        said = {
            "attack": attack.name,
            "kind": outcome.kind,
            "seconds": round(outcome.seconds, 2),
            "megabytes": round(outcome.megabytes, 1),
            "again": reproducing_command(attack.name, self._seed, index),
        }
        (place / "finding.json").write_text(json.dumps(said, indent=1) + "\n", "utf-8")
        (place / "detail.txt").write_text(outcome.detail, "utf-8", "replace")
        _write(place, case)
        return place


def reproducing_command(name: str, seed: int, index: int) -> str:
    """The command that reproduces a case."""
    return f"make attack ARGS=\"--only '{name}' --seed {seed} --case {index}\""


def _write(place: Path, case: Any) -> None:
    for number, part in enumerate(case if isinstance(case, tuple) else (case,)):
        if isinstance(part, bytes):
            (place / f"case-{number}.bin").write_bytes(part)
        elif isinstance(part, Path) and part.is_file():
            shutil.copy(part, place)
    (place / "case.txt").write_text(repr(case)[:_SHOWN], "utf-8", "replace")
