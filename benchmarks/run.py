"""Run the benchmarks of this machine, or those of a GPU and the tests that need one, one after the other.

    python -m benchmarks.run [--gpu] [--only NAME …] [--model FOLDER] [--device cuda] [--release FOLDER]
                             [--minutes M] [--out FOLDER]

Each step is a process of its own that saves its results as it measures. A step that fails or takes too long does not
stop the others. A summary with the status of each step comes last; the exit status is 1 if a step did not pass. With
`--gpu`, the most valuable steps come first, and models are random releases of S2-Pro's sizes unless `--model` names
one. Only the standard library is needed here, so that a package that a step lacks shows as the status of this step.

On a machine that is rented for minutes, without a network, whose Python has the packages: besides those of PyTorch,
Triton and pytest, these steps need hypothesis, platformdirs, av, soundfile, silero-vad and, for weights in 8 bits,
torchao.

    python3 -m benchmarks.random_release /dev/shm/s2
    python3 -m benchmarks.run --gpu --only floor throughput device_memory ready --release /dev/shm/s2 --out FOLDER
    python3 -m pytest -q -m gpu -n 6 --dist loadfile --continue-on-collection-errors tests/engine tests/benchmarks

On an H200 with 16 cores, the tests take 1.5 minutes (6 processes), a random release 2 seconds, `floor` 1.5 minutes,
`throughput` 1.5, since the first engine compiles its kernels, `device_memory` 1.5, and the first audio 1. `ready` has
not ended within 50 s.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks import _report, targets

ROOT = Path(__file__).parents[1]
STEP_MINUTES = 9.0
LOG = "log.txt"


@dataclass(frozen=True)
class Step:
    """A command of this Python, which may take options of the run.

    model, device: whether it takes them. random: whether its model is a random release, if none is given. gpu_options:
    with `--gpu`.
    """

    name: str
    module: str
    options: tuple[str, ...] = ()
    gpu_options: tuple[str, ...] = ()
    device: bool = True
    model: bool = False
    random: bool = False


RELEASE = Step("release", "benchmarks.random_release", device=False)
# Tests whose packages are missing do not keep the others from running.
TESTS = Step(
    "tests",
    "pytest",
    ("-q", "-m", "gpu", "--continue-on-collection-errors", "tests/engine", "tests/benchmarks"),
    device=False,
)
BASELINE = Step("reference_baseline", "benchmarks.speed.reference_baseline", model=True)
SPEAKING = Step("speaking", "benchmarks.speed.speaking", model=True, random=True)
FIRST_AUDIO = Step(
    "first_audio",
    "benchmarks.speed.first_audio",
    gpu_options=("--lengths", "10", "30", "--cold-runs", "1", "--runs", "15"),
    model=True,
    random=True,
)
HTTP = Step("http_latency", "benchmarks.speed.http_latency", model=True)
THROUGHPUT = Step(
    "throughput",
    "benchmarks.speed.throughput",
    gpu_options=("--listeners", "1", "8", "24", "32", "64", "--runs", "1", "--alone", "2"),
    model=True,
    random=True,
)
FLOOR = Step("floor", "benchmarks.speed.floor", gpu_options=("--frames", "60"))
DEVICE_MEMORY = Step("device_memory", "benchmarks.memory.device", model=True, random=True)
READY = Step("ready", "benchmarks.speed.ready", gpu_options=("--precision", "bf16", "int8"), model=True, random=True)
MEMORY = Step("memory", "benchmarks.memory.usage", gpu_options=("--minutes", "1"), model=True, random=True)
DOCUMENT = Step("document", "benchmarks.document", device=False)

STEPS = (
    BASELINE,
    SPEAKING,
    FIRST_AUDIO,
    HTTP,
    Step("page_latency", "benchmarks.speed.page_latency", device=False),
    Step("page_weight", "benchmarks.speed.page_weight", device=False),
    THROUGHPUT,
    FLOOR,
    Step("floor_one_thread", "benchmarks.speed.floor", ("--threads", "1", "--sizes", "bundled")),
    Step("kernels", "benchmarks.speed.kernels", device=False),
    READY,
    MEMORY,
    Step("codec_views", "benchmarks.memory.codec_views", device=False),
    DOCUMENT,
)
GPU_STEPS = (
    TESTS, FLOOR, THROUGHPUT, DEVICE_MEMORY, READY, FIRST_AUDIO, MEMORY, SPEAKING, BASELINE, HTTP, DOCUMENT,
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Outcome of a step. status: `passed`, or why not. last: the last line of a step that did not pass."""

    step: str
    status: str
    seconds: float
    last: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"


class Runner:
    """Runs steps with the options of the run."""

    def __init__(self, options: argparse.Namespace, log: IO[str]) -> None:
        self._options, self._log = options, log
        self._began = time.time_ns()
        self._until = None if options.minutes is None else time.monotonic() + 60 * options.minutes

    def run(self, step: Step, more: Sequence[str] = ()) -> Outcome:
        """Run a step, with its output on the terminal and in the log, and end it at its limit."""
        limit = 60 * STEP_MINUTES
        if self._until is not None:
            limit = min(limit, self._until - time.monotonic())
        if limit <= 0:
            return Outcome(step.name, "not run: no time is left", 0.0)
        began, before = time.monotonic(), time.time_ns()
        self._print(f"\n=== {step.name} ===")
        status, last = self._process(self.command(step, more), limit)
        self._copy_results(before)
        return Outcome(step.name, status, time.monotonic() - began, "" if status == "passed" else last)

    def command(self, step: Step, more: Sequence[str] = ()) -> list[str]:
        """Return the command of a step."""
        options = self._options
        command = [sys.executable, "-m", step.module, *step.options]
        command += step.gpu_options if options.gpu else ()
        command += ["--device", options.device] if step.device and options.device else []
        command += ["--model", options.model] if step.model and options.model else []
        return [*command, *more]

    def _process(self, command: list[str], limit: float) -> tuple[str, str]:
        """Run a process in a group of its own. Returns its status and its last line."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        timed_out, last = threading.Event(), ""

        def end() -> None:
            timed_out.set()
            _kill(process)

        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            timer = threading.Timer(limit, end)
            timer.start()
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    self._print(line.rstrip("\n"))
                    last = line.strip() or last
                code = process.wait()
            finally:
                timer.cancel()
                _kill(process)  # and what it has left running
        if timed_out.is_set():
            return f"ended after {limit / 60:.1f} minutes", last
        return ("passed" if code == 0 else f"exit status {code}"), last

    def _copy_results(self, since: int) -> None:
        """Copy the results that are newer than `since` to the folder of the run, if there is one."""
        if self._options.out is None:
            return
        for path in _report.RESULTS.glob("*.json"):
            if path.stat().st_mtime_ns >= since:
                shutil.copy2(path, self._options.out / path.name)

    def _print(self, line: str) -> None:
        print(line, flush=True)
        print(line, file=self._log, flush=True)

    def run_all(self, steps: Sequence[Step], release: Callable[[], Path]) -> list[Outcome]:
        """Run steps. Before the first step that needs it, write the random release into the folder of `release`."""
        outcomes: list[Outcome] = []
        written: Outcome | None = None
        folder: Path | None = None
        try:
            for step in steps:
                needs = step.random and self._options.gpu and not self._options.model
                if needs and written is None:
                    folder = release()
                    written = self.run(RELEASE, [str(folder)])
                    outcomes.append(written)
                if needs and written is not None and not written.passed:
                    outcomes.append(Outcome(step.name, "not run: there is no release", 0.0))
                else:
                    outcomes.append(self.run(step, ["--model", str(folder)] if needs else []))
        except KeyboardInterrupt:
            ended = {outcome.step for outcome in outcomes}
            outcomes += [Outcome(step.name, "interrupted", 0.0) for step in steps if step.name not in ended]
        return outcomes

    def summarise(self, outcomes: Sequence[Outcome]) -> None:
        """Print the status of each step and, for a GPU, the targets with what this run has measured of them."""
        self._print("\n=== summary ===")
        rows: list[list[_report.Cell]] = [
            [outcome.step, outcome.status, f"{outcome.seconds:.0f}"] for outcome in outcomes
        ]
        self._print(_report.table(["step", "status", "seconds"], rows))
        for outcome in outcomes:
            if outcome.last:
                self._print(f"\n{outcome.step}: {outcome.last[:300]}")
        if self._options.gpu:
            self._print("\n" + _report.table(targets.COLUMNS, targets.rows(_report.RESULTS, self._began)))


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a process that leads a group, and the whole group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _interrupt(*_: object) -> None:
    """Handle SIGTERM. Not by raising SIGINT, which a shell's background jobs ignore."""
    raise KeyboardInterrupt


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options. Names after `--only` must be steps of the run."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted({step.name for step in (*STEPS, *GPU_STEPS)})
    made.add_argument("--gpu", action="store_true", help="the steps for a GPU")
    made.add_argument("--only", nargs="+", choices=names, help="these steps, in the order of the run")
    made.add_argument("--model", help="a release for all steps that take one: bundled, a folder or a Hub id")
    made.add_argument("--device", help="such as cuda:1; cuda by default with --gpu")
    made.add_argument("--release", type=Path, help="keep the random release here, or use it if it is there")
    made.add_argument("--minutes", type=float, help="of all steps; later ones do not run")
    made.add_argument("--out", type=Path, help="copy results here after each step, and write the log here")
    options = made.parse_args(arguments)
    steps = GPU_STEPS if options.gpu else STEPS
    if unknown := set(options.only or ()) - {step.name for step in steps}:
        made.error(f"{', '.join(sorted(unknown))}: not {'for' if options.gpu else 'without'} --gpu")
    options.steps = [step for step in steps if not options.only or step.name in options.only]
    options.device = options.device or ("cuda" if options.gpu else None)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps. Returns the exit status."""
    options = parse(arguments)
    with ExitStack() as stack:
        before = signal.signal(signal.SIGTERM, _interrupt)
        stack.callback(signal.signal, signal.SIGTERM, before)
        folder = options.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        log = stack.enter_context((folder / LOG).open("a", encoding="utf-8"))

        def release() -> Path:
            if options.release is not None:
                return Path(options.release)
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reprise-release-"))) / "s2-pro"

        runner = Runner(options, log)
        outcomes = runner.run_all(options.steps, release)
        runner.summarise(outcomes)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
