"""Power cuts: at any write, sync or deletion, with what was not synced lost, torn or in another order."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from tests.attack.storage.power import Disk, lay_out
from tests.attack.storage.tally import Tally
from tests.attack.storage.vfs import OK, Operation, shim
from tests.attack.storage.workloads import State, Workload, damage_in, open_storage, same_ids, state_of, workloads
from tests.storage.scratch import scratch


@dataclass(frozen=True)
class Recording:
    """What a workload did to the disk. acknowledged: after how many operations each step was done; the first is that
    the library was open. states: what it then held."""

    workload: Workload
    operations: list[Operation]
    acknowledged: list[int]
    states: list[State]


@cache
def recording(workload_number: int) -> Recording:
    """Do the workload once."""
    workload = workloads()[workload_number]
    operations: list[Operation] = []

    def watch(operation: Operation) -> int:
        operations.append(operation)
        return OK

    acknowledged, states = [], []
    with scratch() as folder:
        lay_out(workload.before, folder)
        with shim().watching(folder, watch), same_ids(), open_storage(folder) as storage:
            acknowledged.append(len(operations))
            states.append(state_of(folder))
            for step in workload.steps:
                step(storage)
                acknowledged.append(len(operations))
                states.append(state_of(folder))
    return Recording(workload, operations, acknowledged, states)


def run(count: int, seed: int = 0) -> Tally:
    """So many cuts, spread over the workloads."""
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
    """Cut there, open what is left; what is wrong with it, or None."""
    files = Disk(record.workload.before).cut(record.operations[:at], chance)
    with scratch() as folder:
        lay_out(files, folder)
        try:
            open_storage(folder).close()
        except Exception as error:  # whatever it is: the library cannot be opened any more
            return f"the library cannot be opened: {error!r}"
        if damage := damage_in(folder):
            return f"it is damaged: {damage[:3]}"
        if state_of(folder) not in _allowed(record, at):
            return "it holds neither what it did before the step nor after it"
    return None


def _allowed(record: Recording, at: int) -> list[State]:
    """What was acknowledged last, and what was being done."""
    done = sum(acknowledged <= at for acknowledged in record.acknowledged)
    return record.states[max(0, done - 1) : done + 1]
