"""Headless Firefox, driven over WebDriver BiDi, with a sound output of its own that plays to nowhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.waiting import TIMEOUT, until
from tests.web.browsers.processes import running

LOOK = 0.1  # seconds between two looks at the page, each of which costs the browser time
NAMES = ("firefox-esr", "firefox")
# Everything else that tests need, such as no requests to Mozilla, is the default of a Firefox that is driven.
PREFERENCES = {"media.autoplay.default": 0, "intl.accept_languages": "en", "ui.prefersReducedMotion": 1}
PULSE = (
    "pulseaudio", "-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1", "--disable-shm=yes",
    "--high-priority=no", "--load=module-null-sink",
)  # fmt: skip


class NoFirefox(RuntimeError):
    """Raised when Firefox or PulseAudio is not installed."""


class Firefox:
    """One page. `troubles`: errors of its scripts and on its console."""

    def __init__(self, socket: ClientConnection) -> None:
        self.troubles: list[str] = []
        self._socket = socket
        self._sent = 0
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        self._page: str = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command; return its result. Raises RuntimeError if it fails."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=TIMEOUT))
            if answer.get("method") == "log.entryAdded" and answer["params"]["level"] == "error":
                self.troubles.append(answer["params"]["text"])
            if answer.get("id") == self._sent:
                break
        if answer["type"] == "error":
            raise RuntimeError(f"{method}: {answer['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str) -> None:
        self.call("browsingContext.navigate", context=self._page, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of an expression, null where a part of it is missing."""
        return json.loads(self._evaluate(f"JSON.stringify({expression} ?? null)")["value"])

    def wait_for(self, condition: str) -> None:
        """Wait for a condition, in which `player` is the state of the player."""
        held = f"(() => {{ const player = window.reprisePlayer?.stats; return Boolean({condition}); }})()"
        until(lambda: self.evaluate(held), LOOK)

    def click(self, selector: str) -> None:
        """Click the middle of an element, once it is visible."""
        self.wait_for(f"document.querySelector({selector!r})?.checkVisibility()")
        found = self._evaluate(
            f"(e => (e.scrollIntoView({{ block: 'center' }}), e))(document.querySelector({selector!r}))"
        )
        origin = {"type": "element", "element": {"sharedId": found["sharedId"]}}
        moves: list[dict[str, Any]] = [{"type": "pointerMove", "x": 0, "y": 0, "origin": origin}]
        self._perform("pointer", [*moves, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}])

    def fill(self, selector: str, text: str) -> None:
        """Type into an empty field."""
        self.click(selector)
        self._perform("key", [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")])

    def choose(self, selector: str, file: Path) -> None:
        """Choose a file in a file input."""
        found = {"sharedId": self._evaluate(f"document.querySelector({selector!r})")["sharedId"]}
        self.call("input.setFiles", context=self._page, element=found, files=[str(file)])

    def _perform(self, device: str, actions: list[dict[str, Any]]) -> None:
        self.call(
            "input.performActions", context=self._page, actions=[{"type": device, "id": device, "actions": actions}]
        )

    def _evaluate(self, expression: str) -> dict[str, Any]:
        target = {"context": self._page}
        answer = self.call(
            "script.evaluate", expression=expression, target=target, awaitPromise=True, userActivation=False
        )
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        result: dict[str, Any] = answer["result"]
        return result


@contextmanager
def open_firefox() -> Iterator[Firefox]:
    """Yield Firefox with an empty page. Raises NoFirefox."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None or shutil.which(PULSE[0]) is None:
        raise NoFirefox("Firefox or PulseAudio is not installed (Debian: apt-get install firefox-esr pulseaudio).")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        server = home / "sound"
        environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PULSE_SERVER": f"unix:{server}"}
        # Firefox has no clock for sound without an output.
        access = f"--load=module-native-protocol-unix socket={server} auth-anonymous=1"
        stack.enter_context(running([*PULSE, access], home / "pulse.log", environment))
        until(server.exists)

        profile = home / "profile"
        profile.mkdir()
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()]
        (profile / "user.js").write_text("".join(lines))
        options = ["--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port=0", "about:blank"]
        log = home / "firefox.log"
        stack.enter_context(running([program, *options], log, environment))
        until(lambda: "BiDi listening on" in log.read_text(errors="replace"))
        address = re.findall(r"BiDi listening on (ws://\S+)", log.read_text(errors="replace"))[0]
        yield Firefox(stack.enter_context(connect(f"{address}/session", max_size=None, ping_interval=None)))
