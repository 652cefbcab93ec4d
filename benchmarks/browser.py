"""Chromium for whoever looks at the page: benchmarks, pictures, tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_OWN = ("--no-sandbox", "--autoplay-policy=no-user-gesture-required")
NAMES = ("chromium", "chromium-browser", "google-chrome")


class NoChromium(RuntimeError):
    """There is none on this machine."""


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """Headless, and free to make sound: the system's, else Playwright's own. Raises NoChromium."""
    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, (*NAMES, playwright.chromium.executable_path))), None)
        if found is None:
            raise NoChromium("Chromium is not installed (Debian: apt-get install chromium).")
        browser = playwright.chromium.launch(executable_path=found, args=[*_OWN, *arguments])
        yield browser
        browser.close()


@contextmanager
def another(browser: Browser, *arguments: str) -> Iterator[Browser]:
    """One more beside a browser of `chromium`, whose Playwright it shares: there is one for a thread."""
    found = next(filter(None, map(shutil.which, (*NAMES, browser.browser_type.executable_path))), None)
    opened = browser.browser_type.launch(executable_path=found, args=[*_OWN, *arguments])
    yield opened
    opened.close()
