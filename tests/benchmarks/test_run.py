"""A run goes on after a failure and after a step that takes too long, and tells each step's status at the end."""

import argparse
import importlib
import io
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _report, run
from benchmarks.run import GPU_STEPS, STEPS, Runner, Step, main, parse
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(run, "ROOT", tmp_path)  # where steps run
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(_report, "RESULTS", folder)
    return folder


def code(name: str, *lines: str, random: bool = False) -> Step:
    """Return a step that runs lines of Python, in a module of its name."""
    (run.ROOT / f"{name}.py").write_text("\n".join(lines))
    return Step(name, name, device=False, random=random)


def passes() -> Step:
    return code("passes", "print('measured')")


def fails() -> Step:
    return code("fails", "print('before')", "raise SystemExit('no such kernel')")


def run_steps(monkeypatch: pytest.MonkeyPatch, *steps: Step, gpu: bool = False, options: tuple[str, ...] = ()) -> int:
    monkeypatch.setattr(run, "GPU_STEPS" if gpu else "STEPS", steps)
    return main([*(["--gpu"] if gpu else []), *options])


def summary(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().out.partition("=== summary ===")[2]


def statuses(output: str) -> list[tuple[str, str]]:
    rows = [line.split("|") for line in output.splitlines() if line.startswith("| ")][1:]
    return [(row[1].strip(), row[2].strip()) for row in rows if len(row) == 5]


def test_a_failure_does_not_stop_the_other_steps(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = Step("missing", "no_such_module", device=False)
    assert run_steps(monkeypatch, fails(), missing, passes()) == 1
    output = summary(capfd)
    assert statuses(output) == [("fails", "exit status 1"), ("missing", "exit status 1"), ("passes", "passed")]
    assert "fails: no such kernel" in output
    assert "No module named no_such_module" in output
    assert run_steps(monkeypatch, passes()) == 0


def test_a_step_is_ended_at_its_limit_with_its_processes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "STEP_MINUTES", 2 / 60)
    child = tmp_path / "child"
    hangs = code(
        "hangs",
        "import subprocess, sys, time, pathlib",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
        f"pathlib.Path({str(child)!r}).write_text(str(child.pid))",
        "time.sleep(60)",
    )
    assert run_steps(monkeypatch, hangs, passes()) == 1
    assert [status for _, status in statuses(summary(capfd))] == ["ended after 0.0 minutes", "passed"]
    pid = int(child.read_text())
    deadline = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_steps_after_the_last_minute_do_not_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_steps(monkeypatch, passes(), options=("--minutes", "0")) == 1
    assert statuses(summary(capfd)) == [("passes", "not run: no time is left")]


def test_results_and_log_are_copied_after_each_step(
    monkeypatch: pytest.MonkeyPatch, results: Path, tmp_path: Path
) -> None:
    (results / "old.json").write_text("{}")
    os.utime(results / "old.json", (1, 1))
    saves = code("saves", f"import pathlib; pathlib.Path({str(results / 'new.json')!r}).write_text('[1]')")
    out = tmp_path / "out"
    checks = code("checks", f"import pathlib; assert pathlib.Path({str(out / 'new.json')!r}).exists()")
    assert run_steps(monkeypatch, saves, checks, fails(), options=("--out", str(out))) == 1
    assert sorted(path.name for path in out.iterdir()) == [run.LOG, "new.json"]
    log = (out / run.LOG).read_text("utf-8")
    assert "=== saves ===" in log
    assert "no such kernel" in log
    assert "=== summary ===" in log


def test_targets_are_compared_with_results_of_this_run_only(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], results: Path
) -> None:
    floor = {"sizes": {"S2-Pro": {"modes": [{"precision": "bf16", "frames_per_second": 217.0}]}}}
    path = results / "floor-cuda.json"
    path.write_text(json.dumps(floor))
    os.utime(path, (1, 1))
    assert run_steps(monkeypatch, passes(), gpu=True) == 0
    assert "217" not in summary(capfd)
    saves = code("saves", f"import pathlib; pathlib.Path({str(path)!r}).write_text({json.dumps(floor)!r})")
    assert run_steps(monkeypatch, saves, gpu=True) == 0
    assert "217" in summary(capfd)


def test_the_release_is_written_once_before_the_steps_that_need_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "RELEASE", code("release", "import pathlib, sys; pathlib.Path(sys.argv[1]).mkdir()"))
    uses = ("import pathlib, sys", "assert sys.argv[1] == '--model'", "assert pathlib.Path(sys.argv[2]).is_dir()")
    needs = [code(name, *uses, random=True) for name in ("one", "two")]
    folder = tmp_path / "s2"
    options = ("--release", str(folder))
    assert run_steps(monkeypatch, passes(), *needs, gpu=True, options=options) == 0
    assert folder.is_dir()
    assert [name for name, _ in statuses(summary(capfd))][:4] == ["passes", "release", "one", "two"]
    folder.rmdir()
    assert run_steps(monkeypatch, *needs, gpu=True) == 0
    assert not folder.exists()
    capfd.readouterr()
    monkeypatch.setattr(run, "RELEASE", fails())
    assert run_steps(monkeypatch, *needs, passes(), gpu=True, options=options) == 1
    assert statuses(summary(capfd))[:4] == [
        ("fails", "exit status 1"),
        ("one", "not run: there is no release"),
        ("two", "not run: there is no release"),
        ("passes", "passed"),
    ]


@pytest.mark.parametrize("usual", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_an_interrupted_run_still_tells_its_statuses(
    usual: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """A shell starts background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, usual)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    interrupts = f"import os, time; os.kill(os.getppid(), {signal.SIGTERM:d}); time.sleep(60)"
    assert run_steps(monkeypatch, code("waits", interrupts), passes()) == 1
    assert statuses(summary(capfd)) == [("waits", "interrupted"), ("passes", "interrupted")]


def runner(*arguments: str) -> run.Runner:
    return run.Runner(parse(arguments), log=None)  # type: ignore[arg-type]


def test_each_step_gets_only_the_options_that_it_takes() -> None:
    chosen = runner("--gpu", "--model", "folder", "--device", "cuda:1")
    commands = {step.name: " ".join(chosen.command(step)[1:]) for step in GPU_STEPS}
    assert commands["floor"] == "-m benchmarks.speed.floor --frames 60 --device cuda:1"
    assert commands["tests"] == "-m pytest -q -m gpu --continue-on-collection-errors tests/engine tests/benchmarks"
    assert commands["throughput"].endswith("--runs 1 --alone 2 --device cuda:1 --model folder")
    assert commands["document"] == "-m benchmarks.document"
    usual = runner()
    commands = {step.name: " ".join(usual.command(step)[1:]) for step in STEPS}
    assert commands["throughput"] == "-m benchmarks.speed.throughput"


OURS = {step.name: step for step in (*STEPS, *GPU_STEPS, run.RELEASE) if step.module.startswith("benchmarks.")}


@pytest.mark.parametrize("name", OURS)
def test_steps_know_the_options_that_they_get(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, taken = OURS[name], list[argparse.Namespace]()
    runner = Runner(parse(["--gpu", "--device", "cpu", "--model", "bundled"]), io.StringIO())
    _, _, module, *arguments = runner.command(step, ["folder"] if step is run.RELEASE else [])
    usual = argparse.ArgumentParser.parse_args

    def parse_and_end(parser: argparse.ArgumentParser, *_: object) -> None:
        taken.append(usual(parser, arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_end)
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module(module).main()
    assert taken


def test_all_steps_exist_and_the_most_valuable_are_first() -> None:
    for step in (*STEPS, *GPU_STEPS, run.RELEASE):
        if step.module.startswith("benchmarks."):
            assert (ROOT / (step.module.replace(".", "/") + ".py")).is_file()
    names = [step.name for step in parse(["--gpu"]).steps]
    assert names[:6] == ["tests", "floor", "throughput", "device_memory", "ready", "first_audio"]
    assert [step.name for step in parse(["--gpu", "--only", "ready", "floor"]).steps] == ["floor", "ready"]
    assert parse(["--gpu"]).device == "cuda"
    for wrong in (["--only", "tests"], ["--gpu", "--only", "page_weight"], ["--only", "nothing"]):
        with pytest.raises(SystemExit):
            parse(wrong)
