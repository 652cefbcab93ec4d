"""The result of a new process is its last line; a process that fails is an error."""

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import child_process
from benchmarks.child_process import run_module


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Write a module that prints its arguments and its environment, and fails when it is told to."""
    monkeypatch.setattr(child_process, "ROOT", tmp_path)
    lines = (
        "import json, os, sys",
        "print('noise')",
        "print(json.dumps([sys.argv[1:], os.environ.get('COLOUR')]))",
        "sys.exit(3 if 'fail' in sys.argv else 0)",
    )
    (tmp_path / "answers.py").write_text("\n".join(lines))
    return "answers"


def test_result_is_the_last_line(module: str) -> None:
    environment = {**os.environ, "COLOUR": "red"}
    assert run_module(module, "--task", "one", environment=environment) == [["--task", "one"], "red"]


def test_failure_has_the_status(module: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run_module(module, "fail")
    assert failed.value.returncode == 3
