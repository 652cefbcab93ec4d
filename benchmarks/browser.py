"""Headless Chromium for benchmarks, screenshots and tests, and the app as it visits it."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from playwright.sync_api import Browser, BrowserType, sync_playwright

from benchmarks.child_process import ROOT

_OWN = ("--no-sandbox", "--autoplay-policy=no-user-gesture-required")
# The first one has no window system and takes half the processor time (docs/log.md).
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class NoChromium(RuntimeError):
    """Raised when Chromium is not installed."""


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """Start headless Chromium with autoplay allowed, the system's or else Playwright's. Raises NoChromium."""
    with sync_playwright() as playwright, _launched(playwright.chromium, arguments) as browser:
        yield browser


@contextmanager
def another(browser: Browser, *arguments: str) -> Iterator[Browser]:
    """Start another browser with the Playwright of `browser`, because a thread can have only one. Raises NoChromium."""
    with _launched(browser.browser_type, arguments) as opened:
        yield opened


@contextmanager
def served_app(*options: str) -> Iterator[str]:
    """Serve the app with a new library, in a process of its own. Yield its link. options: of `app.py`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "app.py", "--no-open", "--database", f"{folder}/voices.db", *options]
        app = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert app.stdout is not None
            found = next(filter(None, (re.search(r"http://\S+", line) for line in app.stdout)), None)
            if found is None:
                raise SystemExit("The app has not started; its message is above.")
            yield found.group()
        finally:
            app.terminate()
            app.wait()


@contextmanager
def _launched(browser_type: BrowserType, arguments: Sequence[str]) -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, (*NAMES, browser_type.executable_path))), None)
    if found is None:
        raise NoChromium("Chromium is not installed (Debian: apt-get install chromium-headless-shell).")
    with closing(browser_type.launch(executable_path=found, args=[*_OWN, *arguments])) as browser:
        yield browser
