"""A process that runs cases of attacks, one after the other, and measures each."""

import faulthandler
import gc
import logging
import os
import resource
import signal
import tempfile
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.errors import RepriseError
from tests.attack.attack import Attack, Skipped, all_attacks
from tests.attack.running import guard
from tests.attack.running.outcome import Outcome

_MIB = 1 << 20
_ADDRESSES = 2_048 * _MIB  # added to the limit of a case, because mapped memory is not all used
_LARGEST_FILE = 1_024 * _MIB
WALL_CLOCK_FACTOR = 6.0  # factor of its limit, in wall-clock time, after which a case is killed


def serve(connection: Connection, folder: Path, attacks: dict[str, Attack] | None = None) -> None:
    """Answer (name, case) with an Outcome until the other end closes. attacks: those of the package by default."""
    guard.install(folder)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner handles Ctrl-C
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.getLogger().addHandler(logging.NullHandler())  # the attacked code logs many warnings
    known = all_attacks() if attacks is None else attacks
    stacks = (folder / f"stacks-{os.getpid()}.txt").open("w+")
    # The interrupted thread writes its stack: a watchdog thread would read changing stacks and may crash.
    faulthandler.register(signal.SIGPROF, stacks, all_threads=False)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=False)  # sent by the runner before a kill
    warm: set[str] = set()
    with suppress(EOFError, BrokenPipeError):
        while True:
            name, case = connection.recv()
            outcome = _measured(known[name], case, folder, stacks)
            if outcome.kind in ("slow", "large") and name not in warm and not known[name].alone:
                outcome = _measured(known[name], case, folder, stacks)  # the first run included imports and caches
            warm.add(name)
            connection.send(outcome)


def _measured(attack: Attack, case: Any, folder: Path, stacks: Any) -> Outcome:
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as place:
        os.chdir(place)
        before = _limit(attack)
        clock = time.monotonic if attack.alone else time.process_time
        signal.setitimer(signal.ITIMER_PROF, attack.seconds)
        began = clock()
        outcome = run(attack, case)
        seconds = clock() - began
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        os.chdir(folder)
    megabytes = max(0.0, (_status("VmHWM") - before) / _MIB) if attack.megabytes is not None else 0.0
    kind, detail = outcome.kind, outcome.detail
    if kind in ("held", "refused") and seconds > attack.seconds:
        stacks.seek(0)
        kind, detail = "slow", f"{seconds:.1f} s; after {attack.seconds:g} s it was here:\n{stacks.read()}"
    if kind in ("held", "refused") and attack.megabytes is not None and megabytes > attack.megabytes:
        kind, detail = "large", f"The process grew by {megabytes:.0f} MB."
    stacks.seek(0)
    stacks.truncate()
    return Outcome(kind, detail, seconds, megabytes, outcome.tries)


def run(attack: Attack, case: Any) -> Outcome:
    """Run one case without limits."""
    try:
        tries = attack.run(case)
    except RepriseError as error:
        return Outcome("refused", str(error))
    except Skipped as reason:
        return Outcome("skipped", str(reason))
    except MemoryError:
        return Outcome("large", traceback.format_exc())
    except (Exception, SystemExit):
        return Outcome("raised", traceback.format_exc())
    return Outcome("held", tries=1 if tries is None else tries)


def _limit(attack: Attack) -> int:
    """Set the limits of a case and reset the peak; returns the current memory in bytes."""
    if attack.megabytes is None:
        return 0
    gc.collect()
    most = _status("VmSize") + int(attack.megabytes * _MIB) + _ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, resource.RLIM_INFINITY))
    with suppress(OSError):  # where this is not allowed, only a new peak of the process is measured
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    """Return a field of /proc/self/status in bytes; on other systems only the peak is known."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if field == "VmHWM" else 0
    line = next(line for line in text.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024
