"""WebKitGTK's small browser, driven over WebDriver: the engine of Safari, without a screen or loudspeakers."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_port
from tests.support.waiting import TIMEOUT, until
from tests.web.browsers.processes import running

LOOK = 0.1  # seconds between two looks at the page, each of which costs the browser time
DRIVER, DISPLAY = "WebKitWebDriver", "Xvfb"
OPTIONS = [
    "--automation",
    "--media-playback-requires-user-gesture=true",
]  # as in Safari, sound begins in a gesture only
SINKS = ("alsasink", "pulsesink", "openalsink", "jackaudiosink", "pipewiresink")
CALM = (
    "[Settings]\ngtk-enable-animations=0\n"  # reduced motion: drawing a waveform in each frame takes most of the time
)
COLLECT = """
window.troubles ??= [];
addEventListener("error", ({ message }) => troubles.push(message));
addEventListener("unhandledrejection", ({ reason }) => troubles.push(String(reason)));
const log = console.error;
console.error = (...values) => (troubles.push(values.join(" ")), log(...values));
"""

REACHABLE = """(element) => {
  element?.scrollIntoView({ block: "center" });
  const { x = 0, y = 0, width = 0, height = 0 } = element?.getBoundingClientRect() ?? {};
  return element?.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""


class NoWebKit(RuntimeError):
    """Raised when WebKitGTK's driver or Xvfb is not installed."""


class WebKit:
    """One page."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._path = ""
        wanted = {"webkitgtk:browserOptions": {"args": OPTIONS}, "pageLoadStrategy": "normal"}
        self._path = f"/{self._call('POST', 'session', capabilities={'alwaysMatch': wanted})['sessionId']}"
        self._call("POST", "window/rect", width=1280, height=900)

    def close(self) -> None:
        self._http.delete(f"/session{self._path}")

    def open(self, url: str) -> None:
        self._call("POST", "url", url=url)

    def back(self) -> None:
        self._call("POST", "back")

    def collect_troubles(self) -> None:
        """Collect errors of the page's scripts, and on its console, from now on; see `troubles`."""
        self._run(COLLECT)

    @property
    def troubles(self) -> list[str]:
        found: list[str] = self.evaluate("window.troubles")
        return found

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of an expression."""
        return self._run(f"return ({expression})")

    def wait_for(self, condition: str) -> None:
        """Wait for a condition, in which `player` is the state of the player."""
        held = f"const player = window.reprisePlayer?.stats; return Boolean({condition})"
        until(lambda: self._run(held), LOOK)

    def click(self, selector: str) -> None:
        """Click an element, once nothing covers it."""
        self.wait_for(f"({REACHABLE})(document.querySelector({selector!r}))")
        self._call("POST", f"element/{self._find(selector)}/click")

    def fill(self, selector: str, text: str) -> None:
        """Type into an empty field, or choose a file in a file input."""
        self._call("POST", f"element/{self._find(selector)}/value", text=text)

    def _find(self, selector: str) -> str:
        (found,) = self._call("POST", "element", using="css selector", value=selector).values()
        return str(found)

    def _run(self, script: str) -> Any:
        return self._call("POST", "execute/sync", script=script, args=[])

    def _call(self, method: str, command: str, **body: Any) -> Any:
        """Send a command; return its result. Raises RuntimeError if it fails."""
        address = f"/session{self._path}/{command}" if self._path else f"/{command}"
        answer = self._http.request(method, address, json=body)
        value = answer.json()["value"]
        if answer.is_error:
            raise RuntimeError(f"{command}: {value['error']}: {value['message']}")
        return value


@contextmanager
def open_webkit() -> Iterator[WebKit]:
    """Yield WebKit with an empty page. Raises NoWebKit."""
    if shutil.which(DRIVER) is None or shutil.which(DISPLAY) is None:
        raise NoWebKit("WebKit's driver or Xvfb is not installed (Debian: apt-get install webkit2gtk-driver xvfb).")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        (home / "gtk-3.0").mkdir()
        (home / "gtk-3.0" / "settings.ini").write_text(CALM)
        environment = {
            **os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "XDG_CONFIG_HOME": str(home),
            "NO_AT_BRIDGE": "1",
            "GST_PLUGIN_FEATURE_RANK": ",".join(f"{sink}:NONE" for sink in SINKS),
            "DISPLAY": stack.enter_context(_display(home, dict(os.environ))),
        }  # fmt: skip
        port = free_port()
        stack.enter_context(running([DRIVER, f"--port={port}"], home / "driver.log", environment))
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT, trust_env=False)
        stack.enter_context(http)
        until(lambda: _answers(http))
        webkit = WebKit(http)
        stack.callback(webkit.close)
        yield webkit


@contextmanager
def _display(home: Path, environment: dict[str, str]) -> Iterator[str]:
    """Yield the name of a new display."""
    reader, writer = os.pipe()
    command = [DISPLAY, "-displayfd", str(writer), "-screen", "0", "1280x900x24", "-nolisten", "tcp"]
    with os.fdopen(reader) as names, running(command, home / "display.log", environment, keep=[writer]):
        os.close(writer)
        yield f":{names.readline().strip()}"


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/status").is_success
    except httpx.ConnectError:
        return False
