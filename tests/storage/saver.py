"""Saving, recoding and deleting voices for the crash test, which asks what is left when that is broken off.

`python -m tests.storage.saver PATH SEED` kills many children at it, one after the other, on one library.
`left_at_statements` gives what a process would leave that was killed before any of its statements.

Beside each library, a .said file tells what was begun and what was done. A voice's description is the digest of
its references: whoever reads the library afterwards can tell a whole voice from a half.
"""

import hashlib
import os
import random
import shutil
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from engine.voice import Voice
from storage import VoiceLibrary
from tests.storage.making import recoded, voice

ROUNDS = 12
MOMENTS = ("before_cursor_execute", "commit")


def digest(whole: Voice) -> str:
    """Of the clips and transcripts: what stays when another codec makes the codes."""
    parts = [reference.clip + reference.transcript.encode() for reference in whole.references]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def live(path: Path, *, cycles: int) -> None:
    with path.with_suffix(".said").open("ab", buffering=0) as said, VoiceLibrary.open(path) as library:

        def say(*words: str) -> None:
            said.write((" ".join(words) + "\n").encode())  # kept by the system, whatever becomes of this process

        for _ in range(cycles):
            made = voice(uuid.uuid4().hex, references=2)
            record = library.add(replace(made, description=digest(made)))
            say("saved", record.id)
            library.ready(record.id, "codec-b", lambda original: recoded(original, "codec-b"))
            say("ready", record.id)
            library.rename(record.id, f"renamed {record.name}")
            other = library.add(replace(made, description=digest(made)))
            say("saved", other.id)
            say("deleting", other.id)
            library.delete(other.id)
            say("deleted", other.id)


def in_child(work: Callable[[], None]) -> int:
    """Do it in a child of this process, which has imported everything already; returns the child's id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child: int) -> int:
    """Wait for the child; returns minus the signal that killed it, or its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at_random(path: Path, seed: int) -> None:
    """Each child is killed a moment after it has saved its first voice, however slow the machine is."""
    chance = random.Random(seed)
    said = path.with_suffix(".said")
    said.touch()
    for _ in range(ROUNDS):
        before = said.stat().st_size
        child = in_child(lambda: live(path, cycles=1_000_000))
        while said.stat().st_size == before:
            if os.waitpid(child, os.WNOHANG)[0]:
                sys.exit("The child ended before it was killed.")
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        if ended(child) != -signal.SIGKILL:
            sys.exit("The child ended before it was killed.")


def until_statement(number: int, work: Callable[[], None]) -> None:
    """Do it, and be killed before the n-th statement."""
    statements = count(1)

    def kill_at_last(*_: Any) -> None:
        if next(statements) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    for moment in MOMENTS:
        event.listen(Engine, moment, kill_at_last)
    work()


def make(path: Path) -> None:
    path.with_suffix(".said").touch()
    VoiceLibrary.open(path).close()


def left_at_statements(folder: Path) -> list[Path]:
    """Make a library and use it; what a process killed before any statement of that, or at its end, would have left.

    A killed process leaves the files as they are at that moment: they are copied.
    """
    copies: list[Path] = []
    library = folder / "library.used"

    def copy(*_: Any) -> None:
        copies.append(folder / f"{len(copies)}.sqlite")
        for part in folder.glob(f"{library.stem}.*"):
            if not part.name.endswith("-shm"):  # an index in memory, which whoever opens the library makes anew
                name = part.name.replace(library.name, copies[-1].name).replace(library.stem, copies[-1].stem)
                shutil.copyfile(part, folder / name)

    for moment in MOMENTS:
        event.listen(Engine, moment, copy)
    try:
        make(library)
        live(library, cycles=1)
        copy()
    finally:
        for moment in MOMENTS:
            event.remove(Engine, moment, copy)
    return copies


if __name__ == "__main__":
    killed_at_random(Path(sys.argv[1]), int(sys.argv[2]))
