"""Frame rate against the bound of the memory bandwidth, since every frame reads the weights.

    python -m benchmarks.speed.floor [--device cpu] [--threads N] [--frames N] [--runs 3] [--sizes NAME …] [--compiled]

The bandwidth is measured: the larger of a copy's and a matrix-vector product's. The bytes of a frame are counted from
the stored tensors. The bound is the bandwidth divided by these bytes. It is compared with the engine's model runner for
one listener, in each mode that this machine supports. A step starts before the previous one is read, as in the engine.
Shares above 1 are possible because a small model's Fast AR, which is read nine times per frame, stays in the cache.

Weights are random, with S2-Pro's sizes on a GPU, and the bundled model's and those of a 0.5 B model on a CPU. Sampled
tokens, including the end of a turn, are ignored. "Ready after" is the time for capturing and compiling; the last line
gives it for an engine with the default number of slots, with fused kernels on a GPU. `--compiled` adds the modes with
compiled blocks, which take minutes. The result of one thread on a CPU is kept beside that of several.
"""

import argparse
import gc
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from benchmarks._report import Cell
from benchmarks.memory.sizes import Sizes, bundled, frame_bytes, half_billion, random_dual_ar, s2_pro
from benchmarks.speed._shared import Table, device_parser, keep
from benchmarks.speed.bandwidth import copy_bandwidth, read_bandwidth
from benchmarks.speed.runner_modes import (
    PROMPT,
    WARM_UP,
    Bench,
    RunnerMode,
    build,
    frames_per_second,
    fuse_model,
    has_compiler,
    new_runner,
    record,
    runner_modes,
)
from engine.engine import CPU_SLOTS, GPU_SLOTS, POSITIONS
from engine.errors import first_line
from engine.models.compiling import compile_blocks
from engine.serving.device import available_memory, on_device, prepare_device
from engine.serving.memory import activation_dtype, choose_precision, held_bytes, plan_memory

GPU_FRAMES, CPU_FRAMES, LARGE_FRAMES = 200, 100, 10
LARGE = 100_000_000  # parameters; larger models run fewer frames on a CPU


def comparing(bench: Bench, chosen: list[RunnerMode], found: list[dict[str, Any]]) -> Iterator[None]:
    """Append to `found` the figures of each mode, or the reason why there are none. Yields after each mode."""
    for mode in chosen:
        figures = _or_why_not(partial(measure, bench, mode))
        eager = found[0] if found else figures
        if "frames_per_second" in figures and "frames_per_second" in eager:
            figures["to_eager"] = figures["frames_per_second"] / eager["frames_per_second"]
        found.append({"mode": mode.name, "precision": mode.precision, **figures})
        _let_go(bench.device)
        yield


def measure(bench: Bench, mode: RunnerMode) -> dict[str, Any]:
    """Measure one mode. Raises RepriseError or RuntimeError if it is not available."""
    if mode.compiled and not has_compiler():
        raise RuntimeError("no C compiler was found (CC, cc, gcc or clang)")
    model = build(bench, mode.precision, native=mode.native)
    if mode.fused and (why := fuse_model(model, bench.sizes)):
        raise RuntimeError(why)
    runner = new_runner(bench, model, mode.graphs, slots=1)
    if mode.compiled:
        compile_blocks(model.slow)
        compile_blocks(model.fast)
    ready = record(runner)
    speeds = [frames_per_second(runner, bench) for _ in range(bench.runs)]
    read = frame_bytes(model.slow, model.fast, bench.sizes.residual_size, PROMPT + WARM_UP + bench.frames // 2)
    floor = max(bench.bandwidths.values()) / read.total
    speed = statistics.median(speeds)
    return {
        "graphs": runner.graph_state,
        "weights_bytes": held_bytes(model.slow) + held_bytes(model.fast),
        "frame_bytes": read.total,
        "floor_frames_per_second": floor,
        "frames_per_second": speed,
        "share_of_floor": speed / floor,
        "real_time_factor": bench.sizes.codec.frame_rate / speed,
        "ready_s": ready,
    }


def recording(bench: Bench) -> dict[str, Any]:
    """Measure the capture time of an engine with the default number of slots, or as many as fit into memory.

    On a GPU its kernels are fused, as in an engine; if they cannot be, `plain` says why.
    """
    precision = choose_precision(bench.device, bench.sizes.architecture)
    on_gpu = bench.device.type == "cuda"
    plan = plan_memory(
        bench.sizes.architecture,
        precision,
        available=available_memory(bench.device),
        slots=GPU_SLOTS if on_gpu else CPU_SLOTS,
        positions=POSITIONS,
    )
    model = build(bench, precision)
    plain = fuse_model(model, bench.sizes) if on_gpu else None
    runner = new_runner(bench, model, "frame", plan.slots)
    seconds = record(runner)
    found = {"graphs": runner.graph_state, "slots": plan.slots, "positions": runner.positions, "seconds": seconds}
    return found if plain is None else {**found, "plain": plain}


def _or_why_not(measured: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the measurement, or the first line of the error, so that the other modes are still measured."""
    try:
        return measured()
    except Exception as error:  # compilers, drivers and torchao raise many types
        return {"skipped": first_line(error)[:200]}


def _let_go(device: torch.device) -> None:
    """Free the last model. Compiled blocks form reference cycles, so this needs the garbage collector."""
    torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def bandwidths(device: torch.device, size: int | None = None) -> dict[str, float]:
    """Measure bytes per second of a copy, and of products in the dtypes of the compared precisions."""
    dtypes = {activation_dtype(mode.precision, device) for mode in runner_modes(device, s2_pro().architecture)}
    products = {f"product in {str(dtype).removeprefix('torch.')}": dtype for dtype in sorted(dtypes, key=str)}
    found = {name: read_bandwidth(device, dtype, size=size) for name, dtype in products.items()}
    return {"copy": copy_bandwidth(device, size=size), **found}


SIZES: dict[str, Callable[[], Sizes]] = {"s2-pro": s2_pro, "0.5b": half_billion, "bundled": bundled}


def run(
    device: torch.device,
    sizes: list[Sizes],
    moved: dict[str, float],
    frames: int | None,
    runs: int,
    *,
    compiled: bool = False,
    save: Callable[[Mapping[str, Any]], object] = lambda _found: None,
) -> Any:
    """Run all measurements, with the settings of an engine.

    frames: per run; the default depends on the device and the model's size. compiled: see `runner_modes`. save: called
    after each measurement.
    """
    prepare_device(device)
    found: dict[str, Any] = {"device": str(device), "threads": torch.get_num_threads(), "runs": runs}
    found |= {"prompt": PROMPT, "bandwidth": moved, "sizes": {}}
    for each in sizes:
        slow, fast = random_dual_ar(each.dual_ar, torch.float32, "meta", seed=0)
        parameters = sum(weight.numel() for stack in (slow, fast) for weight in stack.parameters())
        few = LARGE_FRAMES if parameters > LARGE else CPU_FRAMES
        count = frames or (GPU_FRAMES if device.type == "cuda" else few)
        bench = Bench(device, each, count, runs, moved)
        modes: list[dict[str, Any]] = []
        of = {"parameters": parameters, "frames": count, "modes": modes, "recording": {"skipped": "not reached"}}
        found["sizes"][each.name] = of
        with on_device(device):
            for _ in comparing(bench, runner_modes(device, each.architecture, compiled=compiled), modes):
                save(found)
            of["recording"] = _or_why_not(partial(recording, bench))
            _let_go(device)
        save(found)
    return found


COLUMNS = [
    "",
    "weights",
    "GB a frame",
    "floor, frames/s",
    "frames/s",
    "share of the floor",
    "real-time factor",
    "to eager",
    "ready after",
]


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    moved = ", ".join(f"{name} {rate / 1e9:.4g} GB/s" for name, rate in found["bandwidth"].items())
    where = str(found["device"])
    if where == "cpu":
        where += f", {found['threads']} thread{'s' if found['threads'] != 1 else ''}"
    title = f"Frames of one listener against the memory's floor, on {where}: {moved}"
    rows = [_row(name, mode) for name, of in found["sizes"].items() for mode in of["modes"] if "skipped" not in mode]
    return Table(title, COLUMNS, rows, list(_notes(found["sizes"])))


def _row(name: str, mode: Mapping[str, Any]) -> list[Cell]:
    return [
        f"{name}, {mode['mode']}",
        mode["precision"],
        f"{mode['frame_bytes'] / 1e9:.3f}",
        f"{mode['floor_frames_per_second']:.1f}",
        f"{mode['frames_per_second']:.1f}",
        f"{mode['share_of_floor']:.0%}",
        f"{mode['real_time_factor']:.3f}",
        f"× {mode['to_eager']:.2f}" if "to_eager" in mode else None,
        f"{mode['ready_s']:.1f} s",
    ]


def _notes(sizes: Mapping[str, Any]) -> Iterator[str]:
    for name, of in sizes.items():
        for mode in of["modes"]:
            label = f"{name}, {mode['mode']}, {mode['precision']}"
            if "skipped" in mode:
                yield f"Not measured: {label}: {mode['skipped']}"
            elif mode["graphs"].startswith("off:"):
                yield f"Not recorded: {label}: {mode['graphs']}"
        last = of["recording"]
        if "skipped" in last:
            yield f"Not measured: {name}, recording for all listeners: {last['skipped']}"
        else:
            shape = f"{last['slots']} slots of {last['positions']} positions"
            plain = f" Its kernels are not fused: {last['plain']}" if "plain" in last else ""
            yield f"{name}: an engine of {shape} records its steps in {last['seconds']:.1f} s.{plain}"


def _parse() -> argparse.Namespace:
    made = device_parser(__doc__)
    made.add_argument("--threads", type=int, help="of torch, on a CPU; as the machine has cores when not given")
    made.add_argument("--frames", type=int, help="of one run")
    made.add_argument("--runs", type=int, default=3)
    made.add_argument("--sizes", nargs="+", choices=SIZES)
    made.add_argument("--compiled", action="store_true", help="also with compiled blocks, on a GPU")
    return made.parse_args()


def main() -> None:
    """Measure, print the table and save the figures."""
    options = _parse()
    device = torch.device(options.device)
    if options.threads:
        torch.set_num_threads(options.threads)
    names = options.sizes or (["s2-pro"] if device.type == "cuda" else ["bundled", "0.5b"])
    sizes = [SIZES[name]() for name in names]
    name = "floor-one-thread" if device.type == "cpu" and torch.get_num_threads() == 1 else "floor"
    found = run(
        device,
        sizes,
        bandwidths(device),
        options.frames,
        options.runs,
        compiled=options.compiled,
        save=partial(keep, name),
    )
    table(found).show()


if __name__ == "__main__":
    main()
