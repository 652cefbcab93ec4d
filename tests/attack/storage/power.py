"""Possible disk contents after a power cut, under SQLite's assumptions.

A sync makes earlier writes to its file durable; SQLite's first sync of a log or journal also makes creations and
deletions in the folder durable. Each unsynced write may be present, absent or partial, in any order, as may
truncations, creations and deletions. Bytes outside of the written ranges never change.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.attack.storage.vfs import Operation

SECTOR = 512


class Disk:
    """The files of a folder after a power cut."""

    def __init__(self, before: dict[str, bytes]) -> None:
        """before: the durable files at the start of the recording."""
        self._files = {name: bytearray(data) for name, data in before.items()}

    def cut(self, operations: Sequence[Operation], chance: random.Random) -> dict[str, bytes]:
        """Return the files after a power cut that follows these operations."""
        durable = {each.name: index for index, each in enumerate(operations) if each.kind == "sync"}
        folder = max((index for index, each in enumerate(operations) if each.with_folder), default=-1)
        pending: dict[str, list[tuple[Operation, bool]]] = {}
        for index, each in enumerate(operations):
            if index <= durable.get(each.name, -1):
                self._do(each)
            else:
                pending.setdefault(each.name, []).append((each, index <= folder))
        for one_file in pending.values():
            self._do_some(one_file, chance)
        return {name: bytes(data) for name, data in self._files.items()}

    def _do_some(self, pending: Sequence[tuple[Operation, bool]], chance: random.Random) -> None:
        """Apply operations of one file, each with a flag: whether its folder was synced since.

        If a deletion or creation did not happen, later writes went to a file that is lost.
        """
        share = chance.choice([0.0, 0.3, 0.7, 1.0])
        writes: list[Operation] = []
        for each, in_folder in pending:
            if each.kind in ("write", "truncate"):
                writes.append(each)
                continue
            self._do_in_any_order(writes, share, chance)
            writes = []
            if not in_folder and chance.random() >= share:
                return
            self._do(each)
        self._do_in_any_order(writes, share, chance)

    def _do_in_any_order(self, writes: Sequence[Operation], share: float, chance: random.Random) -> None:
        kept = [each for each in writes if chance.random() < share]
        if chance.random() < 0.3:
            chance.shuffle(kept)
        for each in kept:
            self._do(_torn(each, chance) if chance.random() < 0.2 else each)

    def _do(self, operation: Operation) -> None:
        match operation.kind:
            case "create":
                self._files.setdefault(operation.name, bytearray())
            case "delete":
                self._files.pop(operation.name, None)
            case "truncate":
                file = self._files.setdefault(operation.name, bytearray())
                del file[operation.offset :]
            case "write":
                file = self._files.setdefault(operation.name, bytearray())
                end = operation.offset + len(operation.data)
                file.extend(bytes(max(0, end - len(file))))
                file[operation.offset : end] = operation.data


def _torn(operation: Operation, chance: random.Random) -> Operation:
    """Return a write with only some of its sectors."""
    if operation.kind != "write" or len(operation.data) < 2:
        return operation
    first = SECTOR * chance.randint(0, len(operation.data) // SECTOR)
    end = chance.randint(first, len(operation.data))
    return Operation("write", operation.name, operation.offset + first, operation.data[first:end])


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder except shared memory, which does not survive a power cut."""
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.is_file() and not file.name.endswith(("-shm", "-reserve"))
    }


def write_files(files: dict[str, bytes], folder: Path) -> None:
    """Write the files into an empty folder."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
