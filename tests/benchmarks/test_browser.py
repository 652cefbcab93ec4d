"""Browsers are closed whatever happens, and a missing one is reported."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import browser


class _Type:
    """A browser type of Playwright without a browser."""

    executable_path = "/nowhere/chromium"

    def __init__(self) -> None:
        self.opened: list[list[str]] = []
        self.closed = 0

    def launch(self, *, executable_path: str, args: list[str]) -> Any:
        self.opened.append([executable_path, *args])
        return SimpleNamespace(close=self._close)

    def _close(self) -> None:
        self.closed += 1


def test_a_browser_is_closed_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    of: Any = SimpleNamespace(browser_type=_Type())
    with pytest.raises(ValueError, match="wrong"), browser.another(of, "--mute"):
        raise ValueError("wrong")
    assert of.browser_type.closed == 1
    [[program, *arguments]] = of.browser_type.opened
    assert program == browser.NAMES[0]
    assert arguments[-1] == "--mute"


def test_a_missing_browser_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    of: Any = SimpleNamespace(browser_type=_Type())
    with pytest.raises(browser.NoChromium, match="apt-get install"), browser.another(of):
        pass
    assert not of.browser_type.opened
