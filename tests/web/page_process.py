"""A page in a process of its own, which a test can kill and start again at the same address.

python -m tests.web.page_process PORT DATABASE PACE     serves it over the fake engine until it is killed
"""

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.paths import ROOT

PATIENCE = 120.0  # seconds


class PageProcess:
    """Serves a library; `pace` as `tests.fake_engine.Script` has it."""

    def __init__(self, database: Path, pace: float) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        self._command = [sys.executable, "-m", "tests.web.page_process", str(port), str(database), str(pace)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self._process = subprocess.Popen(self._command, cwd=ROOT)
        until = time.monotonic() + PATIENCE
        with httpx.Client() as client:
            while time.monotonic() < until and self._process.poll() is None:
                try:
                    client.get(self.url + "reprise/alive").raise_for_status()
                except httpx.HTTPError:
                    time.sleep(0.2)
                else:
                    return
        raise RuntimeError("the page did not start")

    def kill(self) -> None:
        """End the process without a word to anybody."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def main(port: str, database: str, pace: str) -> None:
    from storage import Storage
    from tests.fake_engine import FakeEngine, Script
    from tests.web.conftest import serving

    with Storage.open(Path(database)) as storage, serving() as serve:
        serve(FakeEngine(Script(pace=float(pace))), storage, server_port=int(port))
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
