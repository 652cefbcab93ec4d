"""The guarded process of a run, in its folder. `__main__` starts it and reads its results."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.attack.attack import Attack, all_attacks
from tests.attack.running import guard
from tests.attack.running.findings import Findings
from tests.attack.running.outcome import WRONG, Outcome, Tally
from tests.attack.running.runner import Job, Runner

RESULTS, FINDINGS = "results.json", "findings"
_HEARTBEAT = 10.0  # seconds between two progress lines


class Session:
    """One run of some attacks."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder, self._options = folder, options
        self._findings = Findings(folder / FINDINGS, options.seed)
        self.tallies: dict[str, Tally] = {}
        self._said = time.monotonic()

    def attack(self, attacks: list[Attack]) -> None:
        """Run the attacks that can run in parallel, then each of the others alone."""
        for attack in attacks:
            self.tallies[attack.name] = Tally(attack.name, attack.what)
        shared = [attack for attack in attacks if not attack.alone]
        alone = [attack for attack in attacks if attack.alone]
        for group, workers in ((shared, self._options.jobs), (alone, 1)):
            if group:
                with Runner(self._folder, workers=workers) as runner:
                    runner.run(self._jobs(group), self._report)

    def _jobs(self, attacks: list[Attack]) -> Iterator[Job]:
        only = self._options.case
        for attack in attacks:
            count = self._count(attack) if only is None else only + 1
            print(f"{attack.name}: {attack.what}", flush=True)
            for index, case in enumerate(attack.cases(self._options.seed, count)):
                if only is None or index == only:
                    yield Job(attack, index, case)

    def _count(self, attack: Attack) -> int:
        """The requested number of cases; attacks that run alone have at most their own number."""
        asked = self._options.count
        if asked is None:
            return attack.count
        return min(asked, attack.count) if attack.alone else asked

    def _report(self, attack: Attack, index: int, case: Any, outcome: Outcome) -> None:
        tally = self.tallies[attack.name]
        tally.add(outcome)
        if outcome.kind in WRONG:
            place = self._findings.keep(attack, index, case, outcome)
            if place:
                print(f"  {attack.name} {index}: {outcome.kind}: {_headline(outcome)}", flush=True)
        elif self._options.case is not None:
            print(f"  {outcome.kind}: {outcome.detail} ({outcome.seconds:.2f} s, {outcome.megabytes:.0f} MB)")
        if time.monotonic() - self._said > _HEARTBEAT:
            self._said = time.monotonic()
            print(f"  … {attack.name}: {tally.tries}, {tally.wrong.total()} wrong", flush=True)


def select_attacks(names: list[str]) -> list[Attack]:
    """The attacks with these names, or else from modules with these names; all for none. Exits for unknown names."""
    attacks = all_attacks()
    if not names:
        return list(attacks.values())
    picked = {name: _called(name, attacks) for name in names}
    if unknown := [name for name, found in picked.items() if not found]:
        sys.exit(f"There is no attack called {', '.join(unknown)}. There are: {', '.join(attacks)}.")
    return [attack for attack in attacks.values() if any(attack in found for found in picked.values())]


def _called(name: str, attacks: dict[str, Attack]) -> list[Attack]:
    """The attack of this name, or else all whose first word or module it is."""
    return [attacks[name]] if name in attacks else [each for each in attacks.values() if _matches(each, name)]


def _matches(attack: Attack, name: str) -> bool:
    run = attack.run.args[0] if isinstance(attack.run, partial) else attack.run
    return name in (attack.name.partition(" ")[0], *run.__module__.split("."))


def _headline(outcome: Outcome) -> str:
    """The last line of the error, or the stack frame of a slow case."""
    lines = outcome.detail.strip().splitlines() or [""]
    frames = [line for line in lines if line.lstrip().startswith("File ")]
    line = frames[0] if outcome.kind == "slow" and frames else lines[-1]
    return line.strip()[:200]


def main() -> None:
    """Run with the options of `__main__` as a JSON argument, confined to the working folder."""
    options = argparse.Namespace(**json.loads(sys.argv[1]))
    folder = Path.cwd()
    guard.install(folder)
    os.environ["REPRISE_ATTACK_FOLDER"] = str(folder)
    os.environ["REPRISE_ATTACK_MINUTES"] = str(options.minutes)
    session = Session(folder, options)
    try:
        session.attack(select_attacks(options.only))
    except KeyboardInterrupt:
        print("stopped; the results so far follow", flush=True)
    results = [tally.values() for tally in session.tallies.values()]
    (folder / RESULTS).write_text(json.dumps(results), "utf-8")
