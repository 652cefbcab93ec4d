"""What the process takes of its machine, as far as the system says."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

STATM = Path("/proc/self/statm")


def memory(statm: Path = STATM) -> int:
    """Bytes of memory that the process has now; where the system only keeps the most it ever had, that."""
    try:
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
