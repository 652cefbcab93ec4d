"""A page in a separate process, which a test can kill and restart at the same address.

python -m tests.web.page_process PORT DATABASE PACE     for each line of its input, forks a process that serves the
                                                        page over the fake engine until it is killed; prints its id
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.paths import ROOT

PATIENCE = 120.0  # seconds


class PageProcess:
    """A process that serves a library. `pace`: as in `tests.support.fake_engine.Script`.

    A parent process imports everything, which takes seconds, and is forked for each start.
    """

    def __init__(self, database: Path, pace: float) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        command = [sys.executable, "-m", "tests.web.page_process", str(port), str(database), str(pace)]
        self._parent = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process: int | None = None

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(file=self._parent.stdin, flush=True)
        self._process = int(self._parent.stdout.readline())
        until = time.monotonic() + PATIENCE
        with httpx.Client() as client:
            while time.monotonic() < until and self._parent.poll() is None:
                try:
                    client.get(self.url + "reprise/alive").raise_for_status()
                except httpx.HTTPError:
                    time.sleep(0.2)
                else:
                    return
        raise RuntimeError("the page did not start")

    def kill(self) -> None:
        """Kill the process without a clean shutdown."""
        if self._process is not None:
            os.kill(self._process, signal.SIGKILL)
            self._process = None

    def close(self) -> None:
        """Kill the process, and end its parent."""
        self.kill()
        with self._parent:
            self._parent.kill()


def main(port: str, database: str, pace: str) -> None:
    from storage import Storage
    from tests.support.fake_engine import FakeEngine, Script
    from tests.web.conftest import serving

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed children need no wait()
    for _ in sys.stdin:
        if process := os.fork():
            print(process, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.stdout = sys.stderr
        with Storage.open(Path(database)) as storage, serving() as serve:
            serve(FakeEngine(Script(pace=float(pace))), storage, server_port=int(port))
            while True:
                time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
