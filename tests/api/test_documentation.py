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
EXAMPLES = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.M | re.S)


def test_each_language_has_an_example() -> None:
    assert {language for language, _ in EXAMPLES} == set(COMMANDS)


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize(("language", "code"), EXAMPLES)
def test_example_runs(server: Server, tmp_path: Path, language: str, code: str) -> None:
    done = subprocess.run(
        COMMANDS[language], input=code, cwd=tmp_path, env={**os.environ, "REPRISE_URL": server.url},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if written := list(tmp_path.iterdir()):
        samples, rate = decode_audio(written[0].read_bytes(), written[0].suffix[1:])
        assert len(samples) / rate >= 0.9 * server.sentence
    else:
        assert float(done.stdout.removesuffix(" s\n")) >= 0.9 * server.sentence
