"""The time of encoding is that of clips that the engine does not know."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import _report
from benchmarks.speed import speaking
from engine.serving.clips.clip_encoder import ClipEncoder
from tests.paths import MINIATURE


def test_each_clip_is_encoded_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    encoded: list[bytes] = []
    codes = ClipEncoder._codes

    def counted(encoder: ClipEncoder, clip: torch.Tensor) -> Any:
        encoded.append(clip.numpy().tobytes())
        return codes(encoder, clip)

    monkeypatch.setattr(ClipEncoder, "_codes", counted)
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    monkeypatch.setattr("engine.request.turns.frame_budget", lambda *_: 6)
    monkeypatch.setattr(speaking, "TEXTS", {"a word": "Yes."})
    monkeypatch.setattr("sys.argv", ["speaking", "--model", str(MINIATURE), "--device", "cpu", "--runs", "2"])
    speaking.main()
    assert len(encoded) == len(set(encoded)) == 1 + 2  # the voice that speaks, and a new clip of each run
    found = json.loads((tmp_path / "speaking.json").read_text("utf-8"))
    times = found["stages"]["encode_new_clip_s"]
    assert 0 < times["median"] <= times["worst"]
    assert f"took {times['median']} s ({times['worst']})" in speaking.table(found).notes[0]
