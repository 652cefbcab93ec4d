"""The public API: `from engine import Engine`, without torch for those who need a voice or an error only."""

import subprocess
import sys

import pytest

import engine
from tests.paths import ROOT


def test_every_public_name_can_be_imported_from_the_package() -> None:
    assert [name for name in engine.__all__ if getattr(engine, name).__name__ != name] == []
    assert engine.__all__ == sorted(engine.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'engine' has no attribute 'Nothing'"):
        engine.Nothing  # noqa: B018


@pytest.mark.parametrize(
    "light", ["import engine.errors", "import engine.voice", "from engine import Voice, EngineBusy"]
)
def test_voices_and_errors_need_no_torch(light: str) -> None:
    code = f"import sys; {light}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
