"""Save, reencode and delete voices for the crash test, which checks the library after an interruption.

`copies_before_each_statement` returns the files that a process killed before each statement would leave.

A .said file beside each library logs the operations that began and completed. A voice's description is the digest of
its references, which distinguishes a whole voice from a partial one.
"""

import hashlib
import os
import shutil
import signal
import traceback
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from engine.voice import Voice
from storage import Storage
from tests.storage.making import open_voices, recoded, voice

MOMENTS = ("before_cursor_execute", "commit")


def digest(whole: Voice) -> str:
    """Return a digest of the clips and transcripts, which stay the same when another codec encodes the voice."""
    parts = [reference.clip + reference.transcript.encode() for reference in whole.references]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def run_cycles(path: Path, *, cycles: int) -> None:
    with path.with_suffix(".said").open("ab", buffering=0) as said, open_voices(path) as library:

        def say(*words: str) -> None:
            said.write((" ".join(words) + "\n").encode())  # survives a kill of this process

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


def fork_child(work: Callable[[], None]) -> int:
    """Run `work` in a fork of this process, which has already imported everything; returns the child's process id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait_for_exit(child: int) -> int:
    """Wait for the child; returns minus the signal that killed it, or its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_until_statement(number: int, work: Callable[[], None]) -> None:
    """Run `work` and kill this process before the statement with this number."""
    statements = count(1)

    def kill_at_last(*_: Any) -> None:
        if next(statements) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    for moment in MOMENTS:
        event.listen(Engine, moment, kill_at_last)
    work()


def create_library(path: Path) -> None:
    path.with_suffix(".said").touch()
    Storage.open(path).close()


def copies_before_each_statement(folder: Path) -> list[Path]:
    """Create and use a library; copy its files before every statement and at the end.

    A killed process would leave the files exactly as they are in the copy.
    """
    copies: list[Path] = []
    library = folder / "library.used"

    def copy(*_: Any) -> None:
        copies.append(folder / f"{len(copies)}.sqlite")
        for part in folder.glob(f"{library.stem}.*"):
            if not part.name.endswith("-shm"):  # an index in memory, rebuilt when the library is opened
                name = part.name.replace(library.name, copies[-1].name).replace(library.stem, copies[-1].stem)
                shutil.copyfile(part, folder / name)

    for moment in MOMENTS:
        event.listen(Engine, moment, copy)
    try:
        create_library(library)
        run_cycles(library, cycles=1)
        copy()
    finally:
        for moment in MOMENTS:
            event.remove(Engine, moment, copy)
    return copies
