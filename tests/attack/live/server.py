"""A server process: start, inspect and stop it."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tests.attack.attack import Broken
from tests.paths import share_native_code
from tests.support.ports import free_port

STARTING = 180.0  # seconds; generous, for busy machines
_LINK = re.compile(r"https?://(?:localhost|127\.0\.0\.1)(?::\d+)?/?\S*")
_AFTER = 1.0  # seconds within which the link with the token follows Gradio's line


def working_folder() -> Path:
    """The folder of this run."""
    return Path(os.environ.get("REPRISE_ATTACK_FOLDER") or tempfile.gettempdir())


def obeys_permissions() -> bool:
    """Return whether file permissions apply to servers started here."""
    return os.geteuid() != 0 or shutil.which("setpriv") is not None


def _drop_privileges() -> list[str]:
    """The command prefix that drops root's capability to open every file."""
    if os.geteuid() != 0 or not obeys_permissions():
        return []
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


class Server:
    """`app.py` on a free local port, with additional `options`.

    folder: for its library and temporary files; a fresh one by default. link: the printed link.
    url: the page's address without the token. log: its output, line by line.
    """

    def __init__(self, *options: str, folder: Path | None = None, database: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="server-", dir=working_folder()))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.database = database or self.folder / "voices.db"
        self.port = free_port()
        self.log: list[str] = []
        self.link = ""
        own = ["--port", str(self.port), "--database", str(self.database), "--device", "cpu"]
        command = [
            *_drop_privileges(),
            sys.executable,
            "-m",
            "tests.attack.live.guarded",
            str(working_folder()),
            *own,
            *options,
        ]
        self.process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        share_native_code(home)
        places = {name: str(home) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
        own = {"TMPDIR": str(self.temporary), "PYTHONPATH": _root(), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        quiet = {"HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False", "PYTHONDONTWRITEBYTECODE": "1"}
        return {**os.environ, **places, **own, **quiet}

    @property
    def url(self) -> str:
        parts = urlsplit(self.link)
        return f"{parts.scheme}://{parts.netloc}/"

    def wait_until_started(self) -> "Server":
        """Wait until the server has printed its link. Raises Broken if it exits or prints none."""
        until = time.monotonic() + STARTING
        while not self._links():
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise Broken("The server did not start:\n" + "\n".join(self.log[-20:]))
            time.sleep(0.05)
        for _ in range(20):
            if any("token=" in link for link in self._links()):
                break
            time.sleep(_AFTER / 20)
        self.link = next((link for link in self._links() if "token=" in link), self._links()[0])
        return self

    def wait_for_exit(self, timeout: float = STARTING) -> int:
        """Wait for the exit code. Raises Broken if the server does not exit."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise Broken(f"The server did not exit within {timeout:g} s:\n" + "\n".join(self.log[-20:])) from None
        self._reader.join(5.0)
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()

    def memory(self) -> int:
        """Resident memory in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:"))) * 1024

    def leftovers(self) -> list[str]:
        """Upload and take files and folders in its temporary folder."""
        return sorted(str(path.relative_to(self.temporary)) for path in self.temporary.rglob("reprise-*"))

    def uploaded(self) -> int:
        """Bytes of uploads in its temporary folder."""
        return sum(path.stat().st_size for path in self.temporary.rglob("*") if path.is_file())

    def check_log(self, *secrets: str) -> None:
        """Raise Broken for a traceback, or any of these texts, in its output."""
        text = "\n".join(line for line in self.log if "token=" not in line)
        if "Traceback (most recent call last)" in text:
            raise Broken("The server printed a traceback:\n" + text[text.index("Traceback") :][:2_000])
        for secret in secrets:
            if secret in text:
                raise Broken(f"The log holds {secret!r}.")

    def _links(self) -> list[str]:
        return [
            found[0] for line in list(self.log) for found in [_LINK.search(line)] if found and str(self.port) in line
        ]

    def _read(self) -> None:
        assert self.process.stdout is not None, "stdout is a pipe"
        for line in self.process.stdout:
            self.log.append(line.rstrip())


@cache
def shared_server(*options: str) -> Server:
    """A shared server for several attacks with these options; a dead one is not restarted."""
    server = Server(*options).wait_until_started()
    atexit.register(server.stop)
    return server


def _root() -> str:
    return str(Path(__file__).parents[3])
