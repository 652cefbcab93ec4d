"""Output of a program that was started without standard streams."""

import sys

import pytest

from cli.terminal import is_terminal, say, status_line


def test_closed_standard_error_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as Python sets it for `2>&-`
    assert not is_terminal(sys.stderr)
    status_line("0.5 s spoken")
    say("Wrote out.wav.")
