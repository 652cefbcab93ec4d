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


@pytest.mark.parametrize(
    "light", ["import engine.errors", "import engine.voice", "from engine import Voice, EngineBusy"]
)
def test_voices_and_errors_do_not_import_torch(light: str) -> None:
    code = f"import sys; {light}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
