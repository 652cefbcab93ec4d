"""Compile all fused kernels for GPUs that this machine does not have: prints "KERNEL sm_NN" for each.

    TRITON_INTERPRET=0 python -m tests.engine.models.kernel_compilation

A frame at S2-Pro's sizes is run on meta tensors, with one layer in each stack, and each launch is compiled down to the
GPU's machine code instead of started.
"""

from itertools import product
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import JITFunction

from benchmarks.memory.sizes import random_dual_ar, s2_pro
from engine.models.frame_step import DecodeState, FrameStep
from engine.models.fused import FusedRun, sampling_kernels
from engine.models.kernels.products import narrow_product
from engine.models.kv_cache import StaticRowsView
from engine.models.quantization import Precision, quantize_block

CAPABILITIES = (80, 90)  # Ampere and Hopper
MANY_ROWS = 20  # of a product that uses matrix units
_META = torch.device("meta")
_TYPES = {
    torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int64: "*i64", torch.int8: "*i8", torch.uint8: "*u8"
}  # fmt: skip
_WARP = 32


class Compiler:
    """Compiles each launch once. `compiled`: the kernels' names and capabilities."""

    def __init__(self) -> None:
        self.compiled: set[tuple[str, int]] = set()
        self._seen: set[tuple[Any, ...]] = set()

    def launch(self, kernel: Any, *given: Any, grid: Any, warmup: bool, **options: Any) -> None:
        """Stand in for `JITFunction.run`."""
        values = dict(zip(kernel.arg_names, given, strict=False)) | options
        constants = {each.name: values[each.name] for each in kernel.params if each.is_constexpr}
        types = {name: "constexpr" if name in constants else _type(values[name]) for name in kernel.arg_names}
        key = kernel.__name__, *types.items(), *constants.items()
        if key in self._seen:
            return
        self._seen.add(key)
        places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
        extra = {name: value for name, value in options.items() if name not in kernel.arg_names}  # such as num_warps
        for capability in CAPABILITIES:
            source = ASTSource(fn=kernel, signature=types, constexprs=places)
            triton.compile(source, target=GPUTarget("cuda", capability, _WARP), options=extra)
            self.compiled.add((kernel.__name__, capability))


def _type(value: Any) -> str:
    if isinstance(value, Tensor):
        return _TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32" if abs(value) < 1 << 31 else "i64"


@torch.inference_mode()
def run_frame(precision: Precision, positions: int = 1024) -> None:
    """Run a frame of one listener with fused kernels."""
    sizes = s2_pro()
    slow, fast = random_dual_ar(sizes.dual_ar, torch.bfloat16, _META, seed=0)
    for stack, name in ((slow, "slow"), (fast, "fast")):
        stack.layers = stack.layers[:1]
        quantize_block(stack, precision, stack=name)  # type: ignore[arg-type]
        stack.prepare_for_decoding()
        stack.fused = FusedRun(stack)
    slow.fused_sampling = sampling_kernels()
    frame, state = FrameStep(slow, fast, sizes.residual_size), DecodeState.idle(1, slow, _META)
    noise = frame.noise(state, frame.candidates)
    view = StaticRowsView(slow.new_cache(1, positions), state.position, positions)
    semantic, vector = frame.semantic(state, view, noise)
    frame.codes(state.options, vector, semantic, noise)


def run_product(dtype: torch.dtype, rows: int) -> None:
    """Run a product with 8-bit weights."""
    x, weight = torch.empty(rows, 2560, dtype=torch.bfloat16, device=_META), torch.empty(6144, 2560, device=_META)
    narrow_product(x, weight.to(dtype), torch.empty(6144, 1, dtype=torch.bfloat16, device=_META))


def main() -> None:
    """Compile the kernels of frames and products."""
    compiler = Compiler()
    with patch.object(JITFunction, "run", lambda *given, **options: compiler.launch(*given, **options)):
        run_frame("bf16")
        run_frame("int8")
        for dtype, rows in product((torch.int8, torch.float8_e4m3fn), (1, MANY_ROWS)):
            run_product(dtype, rows)
    for name, capability in sorted(compiler.compiled):
        print(f"{name} sm_{capability}")


if __name__ == "__main__":
    main()
