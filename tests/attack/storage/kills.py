"""Processes killed (SIGKILL) while they save, import, delete, forget and migrate.

It forks, so it is run as a program of its own:

    python -m tests.attack.storage.kills COUNT SEED SECONDS     prints the results as JSON
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.attack.storage.cuts import Recording, recording
from tests.attack.storage.power import write_files
from tests.attack.storage.tally import Tally
from tests.attack.storage.workloads import damage_in, deterministic_ids, open_storage, state_of, workloads
from tests.storage.saver import fork_child, run_until_statement, wait_for_exit
from tests.storage.scratch import scratch

_ROOT = Path(__file__).parents[3]
_MOST_STATEMENTS = 250


def run(count: int, seed: int = 0, *, most_seconds: float = 0.6) -> Tally:
    """Run a number of kills, spread over the workloads: half before a statement, half within `most_seconds`."""
    tally = Tally("SIGKILL during saves, imports, deletes, undo and migrations")
    command = [sys.executable, "-m", "tests.attack.storage.kills", str(count), str(seed), str(most_seconds)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    result = json.loads(done.stdout)
    tally.tried, tally.broken = result["tried"], result["broken"]
    return tally


def _kill(record: Recording, chance: random.Random, most_seconds: float) -> str | None:
    """Run the workload in a child and kill it. Returns the defect of the remaining library, or None."""
    with scratch() as folder:
        write_files(record.workload.before, folder)
        said = folder / "said"
        said.touch()
        statement = chance.randint(1, _MOST_STATEMENTS) if chance.random() < 0.5 else 0
        child = fork_child(lambda: run_until_statement(statement, lambda: _do(record, folder, said)))
        if not statement:
            time.sleep(chance.uniform(0.0, most_seconds))
            os.kill(child, signal.SIGKILL)
        if (code := wait_for_exit(child)) not in (0, -signal.SIGKILL):
            return f"the child ended with {code}"
        done = said.stat().st_size
        open_storage(folder).close()
        if damage := damage_in(folder):
            return f"it is damaged: {damage[:3]}"
        if state_of(folder) not in record.states[max(0, done - 1) : done + 1]:
            return f"after {done} acknowledgements it holds neither what it did before nor after"
    return None


def _do(record: Recording, folder: Path, said: Path) -> None:
    """Write one byte to `said` when the library is open, and one after each step."""
    with said.open("ab", buffering=0) as file, deterministic_ids(), open_storage(folder) as storage:
        file.write(b".")
        for step in record.workload.steps:
            step(storage)
            file.write(b".")


def _main(count: int, seed: int, most_seconds: float) -> None:
    chance, broken = random.Random(seed), []
    for number in range(count):
        record = recording(number % len(workloads()))
        if found := _kill(record, chance, most_seconds):
            broken.append(f"{record.workload.name}, kill {number} of seed {seed}: {found}")
    print(json.dumps({"tried": count, "broken": broken}))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
