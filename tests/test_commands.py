"""Every module that can be run says how, and does nothing else, when it is asked for help."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

FOLDERS = "benchmarks", "scripts", "training"


def is_command(path: Path) -> bool:
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in ast.parse(path.read_text("utf-8")).body
    )


COMMANDS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if is_command(path)
]


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
@pytest.mark.parametrize("command", COMMANDS)
def test_command_explains_itself(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [command, "--help"])
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(command, run_name="__main__")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in FOLDERS:
            raise
        pytest.skip(f"{error.name} is not installed")
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("usage:")
