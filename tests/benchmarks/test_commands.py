"""Benchmarks as commands: errors that their user can correct end them with the message alone."""

import runpy
import sys
from collections.abc import Sequence

import pytest


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        *[
            ((name, "--model", "/missing"), "There is no folder /missing")
            for name in ("quality.endings", "quality.voice_quality", "quality.word_times", "quality.quantization")
        ],
        *[
            ((name, "--model", "/missing", "--device", "cpu"), "There is no folder /missing")
            for name in ("speed.speaking", "speed.first_audio", "speed.ready", "speed.throughput")
        ],
        (("quality.voice_quality", "--codec", "/missing"), "holds no codec"),
        (
            ("quality.quality_page", "/missing"),
            "/missing: no results of a complete run; run voice_quality --keep again",
        ),
    ],
)
def test_wrong_folder_is_named_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, command: Sequence[str], says: str
) -> None:
    monkeypatch.setattr(sys, "argv", [*command])
    with pytest.raises(SystemExit, match=says):
        runpy.run_module(f"benchmarks.{command[0]}", run_name="__main__", alter_sys=True)
