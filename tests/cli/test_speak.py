"""The command `speak`, as far as it needs no engine. `tests/test_app.py` tests the rest."""

import sys
from types import SimpleNamespace

import pytest

from cli.speak import _text
from engine.errors import InvalidText


def test_endless_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(most: int = -1) -> bytes:
        assert most >= 0, "it has no end"
        return b"a" * most

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(read=read)))
    with pytest.raises(InvalidText, match="500,000"):
        _text("-")
