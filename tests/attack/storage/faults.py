"""A failing disk: the n-th write, sync, truncation or deletion fails, once or permanently."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from storage import Storage
from storage.errors import DatabaseUnavailable
from tests.attack.storage.cuts import recording
from tests.attack.storage.marked import Marker
from tests.attack.storage.power import write_files
from tests.attack.storage.tally import Tally
from tests.attack.storage.vfs import (
    FULL,
    IOERR_DELETE,
    IOERR_FSYNC,
    IOERR_TRUNCATE,
    IOERR_WRITE,
    OK,
    Operation,
    shim,
)
from tests.attack.storage.workloads import State, damage_in, deterministic_ids, open_storage, state_of, workloads
from tests.storage.scratch import scratch

_ERRORS = {"write": IOERR_WRITE, "sync": IOERR_FSYNC, "truncate": IOERR_TRUNCATE, "delete": IOERR_DELETE}


@dataclass
class Fault:
    """Fails one operation, by number. full: like a full disk. lasting: all later ones fail too, until `repaired`."""

    number: int
    full: bool
    lasting: bool
    repaired: bool = False
    seen: int = field(default=0, init=False)

    def __call__(self, operation: Operation) -> int:
        if operation.kind not in _ERRORS:
            return OK
        self.seen += 1
        hit = self.seen == self.number or (self.lasting and self.seen > self.number)
        if not hit or self.repaired:
            return OK
        if self.full:  # a full disk still syncs, truncates and deletes
            return FULL if operation.kind == "write" else OK
        return _ERRORS[operation.kind]


def run(count: int, seed: int = 0) -> Tally:
    """Run a number of faults, spread over the workloads and evenly over the operations of each."""
    tally = Tally("an I/O error or a full disk at a write, sync, truncation or deletion")
    chance = random.Random(seed)
    each = len(workloads())
    for number in range(count):
        at = number % each
        operations = sum(operation.kind in _ERRORS for operation in recording(at).operations)
        turn, turns = number // each, max(1, count // each)
        where = 1 + (turn * operations) // turns + chance.randrange(max(1, operations // turns))
        fault = Fault(where, full=chance.random() < 0.5, lasting=chance.random() < 0.5)
        tally.tried += 1
        if broken := _broken(at, fault):
            name = workloads()[at].name
            how = f"{'full' if fault.full else 'error'}{' from there on' if fault.lasting else ''}"
            tally.broken.append(f"{name}, {how}, operation {where}: {broken}")
    return tally


def _broken(workload_number: int, fault: Fault) -> str | None:
    """Run the workload until it fails. Returns the defect of the remaining library, or None."""
    workload, states = workloads()[workload_number], recording(workload_number).states
    with scratch() as folder:
        write_files(workload.before, folder)
        with shim().watching(folder, fault), deterministic_ids():
            try:
                storage = open_storage(folder)
            except DatabaseUnavailable:
                fault.repaired = True
                return _wrong(folder, states[:1])
            with storage:
                done = 0
                try:
                    for step in workload.steps:
                        step(storage)
                        done += 1
                except DatabaseUnavailable:
                    pass
                allowed = states[done : done + 2]
                fault.repaired = True
                if state_of(folder) not in allowed:
                    return f"after step {done} it holds neither what it did before nor after"
                if not _works(storage):
                    return f"after step {done} nothing can be saved, although the disk is repaired"
        return _wrong(folder, allowed)


def _works(storage: Storage) -> bool:
    """Save a voice and delete it; returns whether that worked."""
    record = storage.voices.add(Marker(random.Random(1)).voice(), owner="after")
    storage.voices.purge_expired()
    storage.voices.delete(record.id, owner="after")
    return storage.voices.list(owner="after") == []


def _wrong(folder: Path, allowed: list[State]) -> str | None:
    open_storage(folder).close()
    if damage := damage_in(folder):
        return f"it is damaged: {damage[:3]}"
    if state_of(folder) not in allowed:
        return "opened again it holds something else"
    return None
