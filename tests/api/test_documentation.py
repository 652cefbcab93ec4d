"""The examples of docs/api.md run unchanged."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.conftest import Server, decode_audio
from tests.paths import ROOT

COMMANDS = {"sh": ["sh", "-e"], "python": [sys.executable], "js": ["node", "--input-type=module"]}
TABLE = 'character,line,file\nGuard,"Stop, ""friend""!",guard_001\nQueen,Come in.,queen_001\n'
EXAMPLES = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.M | re.S)


def test_each_language_has_an_example() -> None:
    assert {language for language, _ in EXAMPLES} == set(COMMANDS)


def run_example(server: Server, folder: Path, language: str, code: str) -> list[Path]:
    """Run an example in a folder, and check what it has spoken; return its files of sound."""
    done = subprocess.run(
        COMMANDS[language], input=code, cwd=folder, env={**os.environ, "REPRISE_URL": server.url},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = [file for file in folder.iterdir() if file.suffix not in (".csv", ".json")]
    for file in written:
        samples, rate = decode_audio(file.read_bytes(), file.suffix[1:])
        assert len(samples) / rate >= 0.9 * server.sentence
    if not written:
        assert float(done.stdout.removesuffix(" s\n")) >= 0.9 * server.sentence
    return written


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize(("language", "code"), [each for each in EXAMPLES if "lines.csv" not in each[1]])
def test_example_runs(server: Server, tmp_path: Path, language: str, code: str) -> None:
    run_example(server, tmp_path, language, code)


@pytest.mark.usefixtures("short_turns")
def test_example_speaks_a_table_and_later_only_its_changed_lines(server: Server, tmp_path: Path) -> None:
    ((language, code),) = [each for each in EXAMPLES if "lines.csv" in each[1]]
    written: list[dict[str, int]] = []
    for table in (TABLE, TABLE.replace("Come in.", "Come in now.")):
        (tmp_path / "lines.csv").write_text(table, "utf-8-sig")
        sounds = run_example(server, tmp_path, language, code)
        written.append({file.name: file.stat().st_mtime_ns for file in sounds})
    before, after = written
    assert before.keys() == after.keys() == {"guard_001.wav", "queen_001.wav"}
    assert [name for name in before if after[name] != before[name]] == ["queen_001.wav"]
