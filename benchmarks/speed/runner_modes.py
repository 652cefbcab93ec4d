"""The modes in which the engine's model runner generates frames, and the frame rate of one listener in each.

Weights are random (see `sizes`). Sampled tokens, including the end of a turn, are ignored.
"""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from benchmarks.memory.sizes import Sizes, random_dual_ar
from engine.engine import POSITIONS
from engine.families.family import Architecture
from engine.families.s2.dual_ar import DualAR
from engine.models.fused import use_fused_sampling, use_fused_steps
from engine.models.native.run import use_native_sampling, use_native_steps
from engine.models.prompt import Prompt
from engine.models.quantization import Precision, quantize_block
from engine.models.sampling import SamplingOptions
from engine.serving.memory import activation_dtype, choose_precision
from engine.serving.runner.graphs import CudaGraphCapture, GraphCapture
from engine.serving.runner.model_runner import ModelRunner
from engine.serving.runner.prefix_cache import PrefixCache
from engine.serving.runner.step_runners import GraphMode
from engine.serving.runner.traces import TorchScriptCapture

# Positions of a voice with a ten-second clip and a sentence.
PROMPT = 300
WARM_UP = 3


@dataclass(frozen=True)
class RunnerMode:
    """One mode of the model runner."""

    name: str
    precision: Precision
    graphs: GraphMode = "off"
    compiled: bool = False
    fused: bool = False
    native: bool = False


@dataclass(frozen=True)
class Bench:
    """Device, model and length of a measurement. bandwidths: bytes per second, by kind of measurement."""

    device: torch.device
    sizes: Sizes
    frames: int
    runs: int
    bandwidths: Mapping[str, float]


def runner_modes(device: torch.device, architecture: Architecture, *, compiled: bool = False) -> list[RunnerMode]:
    """Return the modes to compare on a device. The first one is the baseline.

    compiled: whether to add those with compiled blocks on a GPU; compiling takes minutes for each.
    """
    usual = choose_precision(device, architecture)
    others: tuple[Precision, ...] = ("fp32", "bf16", "int8")
    if device.type != "cuda":
        return [
            RunnerMode("eager", usual),
            RunnerMode("Fast AR recorded", usual, "fast"),
            RunnerMode("frame recorded", usual, "frame"),
            *([RunnerMode("frame recorded, native", usual, "frame", native=True)] if usual == "fp32" else []),
            *(RunnerMode("frame recorded", other, "frame") for other in others if other != usual),
        ]
    smaller: tuple[Precision, ...] = ("int8", "int4", "fp8")
    return [
        RunnerMode("eager", usual),
        RunnerMode("frame graph, fused", usual, "frame", fused=True),
        *(RunnerMode("frame graph, fused", precision, "frame", fused=True) for precision in smaller),
        RunnerMode("frame graph", usual, "frame"),
        RunnerMode("Fast-AR graph", usual, "fast"),
        *(RunnerMode("frame graph", precision, "frame") for precision in smaller),
        *(
            RunnerMode("frame graph, compiled", precision, "frame", compiled=True)
            for precision in (usual, *smaller)
            if compiled
        ),
    ]


def build(bench: Bench, precision: Precision, *, native: bool = False) -> DualAR:
    """Build a model with random weights.

    Raises DeviceUnavailable or InvalidOption for an unavailable precision, and RuntimeError without native code.
    """
    dtype = activation_dtype(precision, bench.device)
    slow, fast = random_dual_ar(bench.sizes.dual_ar, dtype, bench.device, seed=0)
    quantize_block(slow, precision, stack="slow")
    quantize_block(fast, precision, stack="fast")
    for stack in (slow, fast):
        if native and (why := use_native_steps(stack)):
            raise RuntimeError(why)
        stack.prepare_for_decoding()
    if native and (why := use_native_sampling(slow, (slow.semantic_codebook_size + 1, bench.sizes.residual_size))):
        raise RuntimeError(why)
    return DualAR(bench.sizes.dual_ar, None, slow, fast)  # type: ignore[arg-type]  # nothing here has words


def fuse_model(model: DualAR, sizes: Sizes) -> str | None:
    """Use the fused kernels that the engine uses on a GPU. Return the reasons why some are not used, or None."""
    whys = [use_fused_steps(stack) for stack in (model.slow, model.fast)]
    whys.append(use_fused_sampling(model.slow, (model.slow.semantic_codebook_size + 1, sizes.residual_size)))
    return "; ".join(filter(None, whys)) or None


def new_runner(bench: Bench, model: DualAR, mode: GraphMode, slots: int) -> ModelRunner:
    """Create the engine's runner, with nothing captured yet."""
    capture: GraphCapture | None = None
    if mode != "off":
        on_gpu = bench.device.type == "cuda"
        capture = CudaGraphCapture(bench.device, urgent=True) if on_gpu else TorchScriptCapture()
    return ModelRunner(
        model,
        bench.sizes.residual_size,
        slots=slots,
        positions=POSITIONS,
        prefixes=PrefixCache(bench.device, 0, 0),
        capture=capture,
        mode=mode,
    )


def record(runner: ModelRunner) -> float:
    """Capture all graphs. Return the seconds that it took."""
    began = time.perf_counter()
    with runner.stream():
        while runner.capture_next():
            pass
    return time.perf_counter() - began


def frames_per_second(runner: ModelRunner, bench: Bench) -> float:
    """Measure one listener's frames per second after a prompt, on the stream that an engine uses."""
    columns = torch.zeros(bench.sizes.dual_ar.num_codebooks + 1, PROMPT, dtype=torch.long)
    with runner.stream():
        runner.begin(0, Prompt(columns), SamplingOptions(), key=1)
        while not runner.prefill([0]):
            pass
        for _ in range(WARM_UP):
            runner.step([0]).frames()
        began, before = time.perf_counter(), runner.step([0])
        for _ in range(bench.frames - 1):
            step = runner.step([0])
            before.frames()
            before = step
        before.frames()
        return bench.frames / (time.perf_counter() - began)


def has_compiler() -> bool:
    """Return whether a C compiler for `torch.compile` is installed."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    return any(shutil.which(name) for name in names if name)
