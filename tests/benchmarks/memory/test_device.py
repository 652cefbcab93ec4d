"""Stages are measured apart, errors are results, and limits follow from the size of the GPU."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.evaluation_set import EvaluationSet
from benchmarks.memory import device
from benchmarks.memory.device import CUDA_BYTES, GPU_CASES, STAGES, WARM_UP, StageMeter, measure, parse_case, table
from engine.engine import Engine
from engine.errors import EngineFailed
from tests.paths import MINIATURE

DEVICES = [("cpu", "fp32"), pytest.param("cuda:0", "bf16", marks=pytest.mark.gpu)]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    some = EvaluationSet.load()
    monkeypatch.setattr(EvaluationSet, "load", lambda: replace(some, speakers=some.speakers[:2]))
    monkeypatch.setattr("engine.request.turns.frame_budget", lambda *_: 6)
    monkeypatch.setattr("engine.request.turns.ATTEMPTS", 1)
    monkeypatch.setattr("engine.engine.CPU_SLOTS", 1)
    monkeypatch.setattr(device, "CLIP_SECONDS", 4.0)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(("on", "precision"), DEVICES)
def test_all_stages_have_peaks(on: str, precision: Any) -> None:
    found = json.loads(json.dumps(measure(str(MINIATURE), on, precision, None)))
    assert "failed" not in found
    stages = [stage for stage in STAGES if stage != WARM_UP or on != "cpu"]  # a CPU is not warmed up
    assert list(found["stages"]) == stages
    for peaks in found["stages"].values():
        assert 0 < peaks["allocated"] <= peaks["reserved"] <= peaks["used"] or on == "cpu"
    shown = table({"model": "miniature", "device": on, "cases": [found]})
    assert len(shown.rows[0]) == len(shown.columns)
    assert len(shown.notes) == 1


@pytest.mark.usefixtures("brief")
def test_an_error_is_a_result_with_the_stages_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise EngineFailed("engine.model_failed", why="out of memory")

    monkeypatch.setattr(Engine, "encode_voice", fails)
    found = measure(str(MINIATURE), "cpu", "fp32", None)
    assert "out of memory" in found["failed"]
    assert list(found["stages"])[-1] == "a clip"
    shown = table({"model": "miniature", "device": "cpu", "cases": [found]})
    assert shown.rows[0][-2] is None  # speaking
    assert "it does not work" in shown.notes[0]


def test_a_process_that_ends_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(command: list[str], *, check: bool, **_: object) -> None:
        assert check
        raise subprocess.CalledProcessError(-9, command)

    monkeypatch.setattr(subprocess, "run", ends)
    found = device.in_new_process("m", "cuda:0", "int8:8")
    assert (found["precision"], found["limit_gib"]) == ("int8", 8.0)
    assert "-9" in found["failed"]
    assert table({"model": "m", "device": "cuda:0", "cases": [found]}).rows[0][0] == "int8, 8 GiB"


def test_a_repeated_stage_keeps_its_highest_values(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = StageMeter(torch.device("cpu"))
    values = iter((3.0, 1.0, 2.0))
    monkeypatch.setattr(meter, "_read", lambda: {"allocated": next(values)})
    for stage in ("one", "two", "one"):
        meter.begin(stage)
    meter.end()
    meter.end()
    assert meter.found == {"one": {"allocated": 3.0}, "two": {"allocated": 1.0}}


def test_limit_is_a_share_of_the_gpu_without_what_cuda_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (70 * 2**30, 80 * 2**30))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, _device: shares.append(share))
    device.limit_memory(torch.device("cuda:0"), 8)
    assert shares == [pytest.approx((8 * 2**30 - CUDA_BYTES) / (80 * 2**30))]
    with pytest.raises(ValueError, match="GPU"):
        device.limit_memory(torch.device("cpu"), 8)


def test_cases_name_precision_and_limit() -> None:
    assert [parse_case(case) for case in GPU_CASES] == [("bf16", None), ("bf16", 12.0), ("int8", 8.0), ("fp8", 8.0)]
