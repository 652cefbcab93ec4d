"""Power cuts at any write, sync or deletion, with unsynced data lost, torn or reordered."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from tests.attack.storage.power import Disk, write_files
from tests.attack.storage.tally import Tally
from tests.attack.storage.vfs import OK, Operation, shim
from tests.attack.storage.workloads import (
    State,
    Workload,
    damage_in,
    deterministic_ids,
    open_storage,
    state_of,
    workloads,
)
from tests.storage.scratch import scratch


@dataclass(frozen=True)
class Recording:
    """Disk operations of a workload. acknowledged: number of operations after each step; the first step is opening
    the library. states: the content after each step."""

    workload: Workload
    operations: list[Operation]
    acknowledged: list[int]
    states: list[State]


@cache
def recording(workload_number: int) -> Recording:
    """Record one run of the workload."""
    workload = workloads()[workload_number]
    operations: list[Operation] = []

    def watch(operation: Operation) -> int:
        operations.append(operation)
        return OK

    acknowledged, states = [], []
    with scratch() as folder:
        write_files(workload.before, folder)
        with shim().watching(folder, watch), deterministic_ids(), open_storage(folder) as storage:
            acknowledged.append(len(operations))
            states.append(state_of(folder))
            for step in workload.steps:
                step(storage)
                acknowledged.append(len(operations))
                states.append(state_of(folder))
    return Recording(workload, operations, acknowledged, states)


def run(count: int, seed: int = 0) -> Tally:
    """Run a number of cuts, spread over the workloads."""
    tally = Tally("power cuts with lost, torn and reordered writes")
    chance = random.Random(seed)
    for number in range(count):
        record = recording(number % len(workloads()))
        at = chance.randint(0, len(record.operations))
        broken = _broken(record, at, random.Random(seed * 1_000_003 + number))
        tally.tried += 1
        if broken:
            tally.broken.append(f"{record.workload.name}, cut {number} of seed {seed}, after operation {at}: {broken}")
    return tally


def _broken(record: Recording, at: int, chance: random.Random) -> str | None:
    """Cut at an operation and open the result. Returns the defect, or None."""
    files = Disk(record.workload.before).cut(record.operations[:at], chance)
    with scratch() as folder:
        write_files(files, folder)
        try:
            open_storage(folder).close()
        except Exception as error:  # any error means that the library cannot be opened
            return f"the library cannot be opened: {error!r}"
        if damage := damage_in(folder):
            return f"it is damaged: {damage[:3]}"
        if state_of(folder) not in _allowed(record, at):
            return "it holds neither what it did before the step nor after it"
    return None


def _allowed(record: Recording, at: int) -> list[State]:
    """The states allowed after a cut: the last acknowledged one, and the one in progress."""
    done = sum(acknowledged <= at for acknowledged in record.acknowledged)
    return record.states[max(0, done - 1) : done + 1]
