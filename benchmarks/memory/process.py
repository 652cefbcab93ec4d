"""Memory of the running process. Imports only the standard library, because other programs' Pythons load it too."""

from pathlib import Path
from typing import Literal

_STATUS = Path("/proc/self/status")


def process_mib(field: Literal["VmRSS", "VmHWM"]) -> float:
    """Return MiB of this process, including mapped file pages: `VmRSS` (resident now) or `VmHWM` (peak). Linux only.

    `getrusage` is not used because its peak starts with the parent's.
    """
    for line in _STATUS.read_text("utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not tell a process's memory")
