"""Peak memory of a GPU by stage, precision and limit: loading, checks, warm-up, graphs, a clip, speaking.

    python -m benchmarks.memory.device [--model FOLDER] [--device cuda] [--cases bf16 bf16:12 int8:8 fp8:8]

A case is a precision, and the limit if there is one: the memory of a smaller card, in GiB, as cards are sold. CUDA
itself takes a part of it, and PyTorch may use the rest. Within a limit, the engine plans fewer slots. Each case runs in
a new process: it loads the engine, waits until the graphs are captured, encodes a clip of 30 s, and lets as many
listeners as there are slots speak at once. Figures of a stage are the peaks of what PyTorch has allocated and reserved,
and of what is in use on the whole GPU: the latter peak, and the memory of CUDA and of other processes. On a CPU, they
are the process's memory and its peak.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch

import torch

from benchmarks._report import Cell, common_threads, torch_threads
from benchmarks.child_process import run_module
from benchmarks.engines import loaded, wait_until_ready
from benchmarks.evaluation_set import EvaluationSet
from benchmarks.memory.process import process_mib
from benchmarks.speed._shared import Table, engine_parser, keep, model_name
from benchmarks.speed.first_audio import reference
from benchmarks.speed.throughput import at_once, requests
from engine.engine import Engine
from engine.errors import RepriseError, first_line
from engine.models.native.run import use_native_steps
from engine.models.quantization import Precision
from engine.serving.device import choose_device
from training.work import exit_with_message

MIB, GIB = 2**20, 2**30
CUDA_BYTES = 960 * MIB  # the context, its kernels and the graphs: 953 were measured on an H200
CLIP_SECONDS = 30.0
GPU_CASES = ("bf16", "bf16:12", "int8:8", "fp8:8")

# Stages by the names that `Engine.load` reports, and those after it.
WEIGHTS, CHECKS, CODEC, WARM_UP, GRAPHS, CLIP, SPEAKING = STAGES = (
    "weights",
    "checks",
    "codec",
    "warm-up",
    "graphs",
    "a clip",
    "speaking",
)
_REPORTED = {
    "Loading the speech model": WEIGHTS,
    "Loading the codec": CODEC,
    "Warming up": WARM_UP,
    "Capturing graphs": GRAPHS,
}


class StageMeter:
    """Measures the peak memory of consecutive stages of one device. found: MiB of the finished stages by name."""

    def __init__(self, device: torch.device) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._device, self._stage = device, ""
        if device.type == "cuda":
            torch.cuda.init()  # there are no peaks before

    def begin(self, stage: str) -> None:
        """Begin a stage; end the one before it. Stages may occur several times."""
        self.end()
        self._stage = stage
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    @property
    def stage(self) -> str:
        """The current stage; "" outside of all."""
        return self._stage

    def end(self) -> None:
        """End the current stage."""
        if self._stage:
            before, now = self.found.get(self._stage, {}), self._read()
            self.found[self._stage] = {name: max(value, before.get(name, 0.0)) for name, value in now.items()}
        self._stage = ""

    def _read(self) -> dict[str, float]:
        if self._device.type != "cuda":
            return {"allocated": process_mib("VmRSS"), "reserved": process_mib("VmHWM"), "used": process_mib("VmRSS")}
        torch.cuda.synchronize(self._device)
        free, total = torch.cuda.mem_get_info(self._device)
        allocated, reserved = (
            peak(self._device) for peak in (torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved)
        )
        others = total - free - torch.cuda.memory_reserved(self._device)
        return {"allocated": allocated / MIB, "reserved": reserved / MIB, "used": (others + reserved) / MIB}


@contextmanager
def _checks_apart(meter: StageMeter) -> Iterator[None]:
    """Begin the stage of the checks where loading begins them, before it reports the next stage."""

    def checking(stack: Any) -> str | None:
        if meter.stage == WEIGHTS:
            meter.begin(CHECKS)
        return use_native_steps(stack)

    with patch("engine.serving.loading.use_native_steps", checking):
        yield


def measure(model: str, device: str, precision: Precision, limit: float | None) -> dict[str, Any]:
    """Measure one case. Must run in a new process. limit: GiB. An error is returned, with the stages before it."""
    on = choose_device(device)
    if limit is not None:
        limit_memory(on, limit)
    meter = StageMeter(on)
    found: dict[str, Any] = {"precision": precision, "limit_gib": limit, "device": str(on), "stages": meter.found}

    def report(stage: str, _done: float) -> None:
        if stage in _REPORTED:
            meter.begin(_REPORTED[stage])

    try:
        with _checks_apart(meter), loaded(model, device, precision=precision, progress=report) as engine:
            found |= {"slots": engine.info.slots, "positions": engine.status().positions}
            use(engine, meter)
            found |= {"graphs": engine.status().graphs, "prefixes_mib": engine.status().prefix_cache_bytes[0] / MIB}
    except (RepriseError, RuntimeError, TimeoutError) as error:
        found["failed"] = first_line(error)
    meter.end()
    return {**found, "threads": torch_threads()}


def use(engine: Engine, meter: StageMeter) -> None:
    """Capture all graphs, encode a long clip, and let all slots speak at once."""
    evaluation = EvaluationSet.load()
    wait_until_ready(engine)
    meter.begin(CLIP)
    voices = [
        engine.encode_voice(speaker.name, [reference(speaker.reference, CLIP_SECONDS)]).voice
        for speaker in evaluation.speakers[:2]
    ]
    meter.begin(SPEAKING)
    sentences = [clip.text for speaker in evaluation.speakers for clip in speaker.sentences]
    at_once(engine, requests(voices, sentences, engine.info.slots))


def limit_memory(device: torch.device, gib: float) -> None:
    """Let this process use as much of a GPU as on a card of `gib` GiB. Raises ValueError on a CPU."""
    if device.type != "cuda":
        raise ValueError("only the memory of a GPU can be limited")
    total = torch.cuda.mem_get_info(device)[1]
    torch.cuda.set_per_process_memory_fraction((gib * GIB - CUDA_BYTES) / total, device)


def parse_case(text: str) -> tuple[Precision, float | None]:
    """Parse `int8` or `int8:8`."""
    precision, _, limit = text.partition(":")
    return cast(Precision, precision), float(limit) if limit else None


def in_new_process(model: str, device: str, case: str) -> dict[str, Any]:
    """Measure a case in a new process. A process that ends by itself is an error of the case."""
    try:
        found: dict[str, Any] = run_module(
            "benchmarks.memory.device", "--task", case, "--model", model, "--device", device
        )
    except subprocess.CalledProcessError as error:
        precision, limit = parse_case(case)
        why = f"its process ended with status {error.returncode}"
        return {"precision": precision, "limit_gib": limit, "device": device, "stages": {}, "failed": why}
    return found


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    title = f"Peak memory of {found['model']} on {found['device']}, MiB allocated (reserved)"
    columns = ["weights, limit", "slots of positions", *STAGES, "in use on the GPU"]
    notes = [
        f"{_label(of)}: it does not work: {of['failed']}" if "failed" in of else f"{_label(of)}: graphs {of['graphs']}."
        for of in found["cases"]
    ]
    return Table(title, columns, [_row(of) for of in found["cases"]], notes)


def _row(of: Mapping[str, Any]) -> list[Cell]:
    stages = of["stages"]
    peaks = [
        f"{stages[name]['allocated']:,.0f} ({stages[name]['reserved']:,.0f})" if name in stages else None
        for name in STAGES
    ]
    slots = f"{of['slots']} of {of['positions']:,}" if "slots" in of else None
    used = max((stage["used"] for stage in stages.values()), default=None)
    return [_label(of), slots, *peaks, None if used is None else f"{used:,.0f}"]


def _label(of: Mapping[str, Any]) -> str:
    return str(of["precision"]) + (f", {of['limit_gib']:g} GiB" if of["limit_gib"] else "")


def _parse() -> argparse.Namespace:
    made = engine_parser(__doc__)
    made.add_argument("--cases", nargs="+", help="a precision, or a precision and a limit in GiB, such as int8:8")
    made.add_argument("--task", help=argparse.SUPPRESS)
    return made.parse_args()


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    if options.task:
        print(json.dumps(measure(options.model, options.device, *parse_case(options.task))))
        return
    cases: list[dict[str, Any]] = []
    found: dict[str, Any] = {"model": model_name(options.model), "device": options.device, "cases": cases}
    for case in options.cases or (GPU_CASES if options.device.startswith("cuda") else ("fp32",)):
        cases.append(in_new_process(options.model, options.device, case))
        found["threads"] = common_threads(of.get("threads") for of in cases)
        keep("device_memory", found)
    table(found).show(found["threads"])
    if any("failed" in case for case in cases):
        sys.exit(1)


if __name__ == "__main__":
    with exit_with_message():
        main()
