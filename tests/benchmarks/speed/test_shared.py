"""Options that the benchmarks share: each device exists, and each program takes only options that it uses."""

import pytest
import torch

from benchmarks.quality import quantization
from benchmarks.quality.takes import model_parser
from benchmarks.speed import kernels, reference_baseline
from benchmarks.speed._shared import engine_parser

USUAL = "cuda:0" if torch.cuda.is_available() else "cpu"


def test_device_is_one_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine_parser(None).parse_args([]).device == USUAL
    assert model_parser(None).parse_args([]).device == "cpu"
    assert model_parser(None).parse_args(["--device", "auto"]).device == USUAL
    with pytest.raises(SystemExit):
        engine_parser(None).parse_args(["--device", "tpu"])
    assert "argument --device: " in capsys.readouterr().err


@pytest.mark.parametrize("program", [reference_baseline, quantization])
def test_programs_that_load_parts_of_a_release_choose_a_device(
    program: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["program", "--device", "auto"])
    assert program._parse().device == USUAL  # type: ignore[attr-defined]


def test_a_program_without_a_device_refuses_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kernels", "--device", "cpu"])
    monkeypatch.setattr(kernels, "run", lambda _: pytest.fail("nothing may be counted"))
    with pytest.raises(SystemExit):
        kernels.main()
    assert "--device" in capsys.readouterr().err
