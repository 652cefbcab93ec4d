"""A second start has the caches of the first, and its own process."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import _report, engines
from benchmarks.engines import loaded, wait_until_ready
from benchmarks.speed import ready
from tests.paths import MINIATURE

FIGURES = {
    "precision": "bf16", "threads": 3, "slots": 32, "graphs": "frame",
    "import_s": 1.0, "load_s": 2.0, "ready_s": 3.0, "first_audio_s": 0.05,
}  # fmt: skip
DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_a_start_is_ready_when_all_graphs_are_captured(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.request.turns.frame_budget", lambda *_: 6)
    found = ready.start(str(MINIATURE), device, None, False, since=0.0)
    assert found["graphs"] == "frame"
    assert found["threads"] == torch.get_num_threads()
    assert found["import_s"] > 0
    assert found["load_s"] > 0
    assert found["ready_s"] >= 0
    assert found["first_audio_s"] > 0


def test_an_engine_that_misses_a_graph_is_not_ready() -> None:
    with loaded(MINIATURE, "cpu", slots=1) as engine:
        wait_until_ready(engine)
        batches = engine._pipeline.codec_worker._batches
        missing = {next(iter(batches._sizes()))}
        batches._graphs = SimpleNamespace(is_missing=missing.__contains__)  # type: ignore[assignment]
        assert not engines.is_ready(engine)
        with pytest.raises(TimeoutError):
            wait_until_ready(engine, 0.01)
        missing.clear()
        assert wait_until_ready(engine) >= 0
        engine._pipeline.loop.idle_work.set_idle(False)
        assert not engines.is_ready(engine)


def test_both_starts_share_new_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, Any]] = []

    def run(command: list[str], *, env: dict[str, str], **_: object) -> Any:
        folder = Path(env["TRITON_CACHE_DIR"])
        made.append((command, (folder, folder.exists())))
        folder.mkdir(exist_ok=True)
        return SimpleNamespace(stdout="noise\n" + json.dumps(FIGURES))

    monkeypatch.setattr(subprocess, "run", run)
    starts = ready.measure(str(MINIATURE), "cuda:0", "int8", True)
    (first, (folder, before)), (_, (same, after)) = made
    assert {"--compiled", "--precision", "int8", str(MINIATURE)} <= set(first)
    assert (folder == same, before, after, folder.exists()) == (True, False, True, False)
    table = ready.table({"model": "m", "device": "cuda:0", "starts": starts})
    assert [row[0] for row in table.rows] == ["first, compiled", "second, compiled"]
    assert table.rows[0][2:] == ["1.0", "2.0", "3.0", "50"]


def test_result_has_the_threads_of_the_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["ready", "--device", "cpu"])
    monkeypatch.setattr(ready, "measure", lambda *_: [{**FIGURES, "start": "first", "compiled": False}])
    ready.main()
    assert json.loads((tmp_path / "ready.json").read_text("utf-8"))["machine"]["threads"] == 3
