"""The public API: lazy names of the package `engine`; voices and errors import without torch."""

import subprocess
import sys

import pytest

import engine
from tests.paths import ROOT


def test_all_public_names_are_importable_and_sorted() -> None:
    assert [name for name in engine.__all__ if getattr(engine, name).__name__ != name] == []
    assert engine.__all__ == sorted(engine.__all__)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'engine' has no attribute 'Nothing'"):
        engine.Nothing  # noqa: B018


def test_voices_and_errors_do_not_import_torch() -> None:
    light = ("import engine.errors", "import engine.voice", "from engine import Voice, EngineBusy")
    checks = [f"{each}; assert 'torch' not in sys.modules, {each!r}" for each in light]
    subprocess.run([sys.executable, "-c", "\n".join(["import sys", *checks])], cwd=ROOT, check=True)
