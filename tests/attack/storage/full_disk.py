"""A full disk: a small file system in a private mount namespace that ends with the process."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from storage.errors import DiskFull
from storage.sqlite.reserve import RESERVE_BYTES
from tests.attack.storage.marked import Marker, leftover_tokens
from tests.attack.storage.tally import Tally
from tests.attack.storage.workloads import State, damage_in, open_storage, state_of

_ROOT = Path(__file__).parents[3]
_MEGABYTES = 40
_OTHERS = 16 << 20  # bytes of other files, from the beginning
_MOUNT = f'mount -t tmpfs -o size={_MEGABYTES}m tmpfs "$1" && shift 1 && exec "$@"'


def missing() -> str | None:
    """Why this attack cannot run here, or None."""
    if shutil.which("unshare") is None:
        return "there is no `unshare`"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*_own_mounts(folder), "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no file system can be mounted here: {done.stderr.strip()}"


def run(count: int, seed: int = 0) -> Tally:
    """Run a number of libraries on full disks."""
    tally = Tally("a full disk: nothing half-saved, and everything can be deleted")
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.attack.storage.full_disk", folder, str(number)]
            done = subprocess.run(
                [*_own_mounts(folder), *command], cwd=_ROOT, capture_output=True, text=True, check=False
            )
        result: dict[str, Any] = {"tried": 1, "broken": [done.stderr[-2_000:]]}
        if done.returncode == 0:
            result = json.loads(done.stdout)
        tally.tried += result["tried"]
        tally.broken += [f"disk {number}: {each}" for each in result["broken"]]
    return tally


def _own_mounts(folder: str) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *user, "sh", "-c", _MOUNT, "sh", folder]


class FullDisk:
    """A library on a disk without a free byte."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.mark, self.tally = Marker(self.chance), Tally("")
        self.filler = folder / "filler"
        self.storage = open_storage(folder)

    def run_operations(self) -> None:
        self.storage.voices.purge_expired()  # creates the reserve
        with self.filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _OTHERS)
        self._save_until_full()
        for delete in (self._delete_take, self._delete_voice, self._trash, self._discard, self._reopen):
            self._fill()
            self._delete(delete)
            self._refused()
        self._fill()
        self._delete(lambda: self.storage.delete_owner("ann"))
        self._delete(lambda: self.storage.delete_owner("local"))
        self.filler.unlink()
        self._recovers()
        self.storage.close()

    def _check(self, holds: object, sentence: str) -> None:
        self.tally.tried += 1
        if not holds:
            self.tally.broken.append(sentence)

    def _state(self) -> State:
        return state_of(self.folder)

    def _save_until_full(self) -> None:
        for owner in ("local", "ann"):  # create everything that is deleted later
            for _ in range(3):
                self.storage.voices.add(self.mark.voice(), owner=owner)
            self.storage.history.add(self.mark.spoken(), owner=owner)
            self.storage.scripts.create("Play", [self.mark.card()], owner=owner)
        while True:
            before = self._state()
            try:
                self._save()
            except DiskFull as error:
                self._check("is full" in str(error) and str(self.folder) not in str(error), f"it says: {error}")
                self._check(self._state() == before, "of what did not fit, something was saved")
                return

    def _save(self) -> None:
        owner = self.chance.choice(["local", "ann"])
        if self.chance.random() < 0.3:
            self.storage.voices.add(self.mark.voice(), owner=owner)
        elif self.chance.random() < 0.2:
            self.storage.scripts.create("Play", [self.mark.card() for _ in range(50)], owner=owner)
        else:
            spoken = self.mark.spoken()
            long = spoken.audio * self.chance.randint(1, 1 + (5 << 20) // len(spoken.audio))
            self.storage.history.add(replace(spoken, audio=long), owner=owner)

    def _fill(self) -> None:
        with self.filler.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass

    def _delete(self, delete: Callable[[], object]) -> None:
        before = self._state()
        try:
            delete()
        except DiskFull:
            self._check(False, "deletion fails on the full disk")
        self._check(self._state() != before, "nothing was deleted")
        self._check(not damage_in(self.folder), "the library is damaged")

    def _refused(self) -> None:
        """Check that saving succeeds or changes nothing."""
        before = self._state()
        with suppress(DiskFull):
            added = self.storage.voices.add(self.mark.voice(), owner="bob")
            self.storage.voices.delete(added.id, owner="bob")
        self._check(self._state() == before, "of what did not fit, something was saved")

    def _delete_take(self) -> None:
        records = [self.storage.history.page(owner=owner).records for owner in ("local", "ann")]
        largest = max((record for each in records for record in each), key=lambda record: record.size)
        self.storage.history.delete(largest.id, owner=largest.owner)

    def _voice(self) -> tuple[str, str]:
        found = [record for owner in ("local", "ann") for record in self.storage.voices.list(owner=owner)]
        return found[0].id, found[0].owner

    def _delete_voice(self) -> None:
        voice_id, owner = self._voice()
        self.storage.voices.delete(voice_id, owner=owner)

    def _trash(self) -> None:
        voice_id, owner = self._voice()
        self.storage.voices.trash(voice_id, owner=owner)

    def _discard(self) -> None:
        for owner in ("local", "ann"):
            for record in self.storage.scripts.list(owner=owner)[:1]:
                self.storage.scripts.discard(record.id, owner=owner)

    def _reopen(self) -> None:
        self.storage.close()
        self.storage = open_storage(self.folder)
        self._delete_take()

    def _recovers(self) -> None:
        """Check that with free space the reserve is restored, and nothing of the deleted data remains."""
        self.storage.voices.purge_expired()
        self._check((self.folder / "voices.db-reserve").stat().st_size == RESERVE_BYTES, "there is no reserve")
        self._check(not leftover_tokens(self.folder / "voices.db"), "bytes of deleted data are in the files")
        self.storage.voices.add(self.mark.voice())


if __name__ == "__main__":
    full = FullDisk(Path(sys.argv[1]), int(sys.argv[2]))
    full.run_operations()
    print(json.dumps({"tried": full.tally.tried, "broken": full.tally.broken}))
