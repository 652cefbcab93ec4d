"""A process's own memory."""

import subprocess
import sys

from tests.paths import ROOT

CHILD = "from benchmarks.memory.process import process_mib as of; print(of('VmRSS'), of('VmHWM'))"
PARENT = """
import subprocess, sys
held = bytearray(200 * 2**20)
held[::4096] = b"1" * len(held[::4096])
subprocess.run(sys.argv[1:], check=True)
"""


def test_the_peak_is_not_that_of_the_parent() -> None:
    child = [sys.executable, "-c", CHILD]
    done = subprocess.run([sys.executable, "-c", PARENT, *child], check=True, capture_output=True, text=True, cwd=ROOT)
    now, most = map(float, done.stdout.split())
    assert 0 < now <= most < 150
