"""Compile all fused kernels for GPUs that this machine does not have: prints "KERNEL sm_NN" for each.

    TRITON_INTERPRET=0 python -m tests.engine.models.kernel_compilation

A frame and the decoding of chunks at S2-Pro's sizes are run on meta tensors, with one layer in each stack. Each launch
is compiled instead of started: the first one of a kernel, and its first with 8-bit weights, for all GPUs, down to their
machine code; others for the one with the fewest types and the least shared memory, until LLVM's code, where that memory
is known. LLVM, which would take most of the time, optimises nothing. Triton caches what it made in TRITON_CACHE_DIR, by
the sources of a kernel and the versions of the compilers.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.runtime import JITFunction

from benchmarks.memory.sizes import Sizes, s2_pro
from benchmarks.speed.kernels import META, meta_frame
from engine.codec.codec import CodecDecoder
from engine.codec.fused import FusedConvolutions, set_backend
from engine.models.kernels.attention import attend_new
from engine.models.kernels.elementwise import gate, rms_norm
from engine.models.kernels.products import FEW_ROWS, StoredWeight, gemv, narrow_gemm

# Ampere with the least shared memory, as Ada and consumers' Blackwell have it, and Hopper; bytes for a program.
SHARED_BYTES = {86: 99 << 10, 90: 227 << 10}
CAPABILITIES = tuple(SHARED_BYTES)
MANY_ROWS = 20  # of a product that uses matrix units
POSITIONS = 4096  # of a slot, which has more splits than programs of a row
_TYPES = {
    torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int64: "*i64", torch.int8: "*i8", torch.uint8: "*u8"
}  # fmt: skip
_EIGHT_BITS = {"*i8", "*u8"}
_WARP = 32


class Compiler:
    """Compiles each launch once: to machine code for all GPUs if it is the first of its kernel, or its first with 8-bit
    weights; the others to LLVM's code. `compiled`: the names and capabilities of kernels with machine code.
    """

    def __init__(self) -> None:
        self.compiled: set[tuple[str, int]] = set()
        self._seen: set[tuple[Any, ...]] = set()
        self._whole: set[tuple[str, bool]] = set()

    def launch(self, kernel: Any, *given: Any, grid: Any, warmup: bool, **options: Any) -> None:
        """Stand in for `JITFunction.run`."""
        values = dict(zip(kernel.arg_names[: len(given)], given, strict=True)) | options
        constants = {each.name: values[each.name] for each in kernel.params if each.is_constexpr}
        types = {name: "constexpr" if name in constants else _type(values[name]) for name in kernel.arg_names}
        key = kernel.__name__, *types.items(), *constants.items()
        if key in self._seen:
            return
        self._seen.add(key)
        extra = {name: value for name, value in options.items() if name not in kernel.arg_names}  # such as num_warps
        kind = kernel.__name__, not _EIGHT_BITS.isdisjoint(types.values())
        whole = kind not in self._whole
        self._whole.add(kind)
        for capability in CAPABILITIES if whole else CAPABILITIES[:1]:
            dependent = {"DEPENDENT": capability >= 90} if "DEPENDENT" in constants else {}
            places = {(kernel.arg_names.index(name),): value for name, value in (constants | dependent).items()}
            source = ASTSource(fn=kernel, signature=types, constexprs=places, attrs=_aligned(kernel, types))
            with nullcontext() if whole else without_machine_code():
                made = triton.compile(source, target=GPUTarget("cuda", capability, _WARP), options=extra)
            assert made.metadata.shared <= SHARED_BYTES[capability], (
                f"{kernel.__name__} on sm_{capability}: {constants}"
            )
            if whole:
                assert made.asm["cubin"], f"{kernel.__name__} on sm_{capability} has no machine code"
                self.compiled.add((kernel.__name__, capability))


@contextmanager
def without_machine_code() -> Iterator[None]:
    """Let Triton stop at LLVM's code. It expects a name and bytes of the stages after it, and caches them apart."""

    def make_ptx(_: CUDABackend, source: str, metadata: dict[str, Any], *_rest: Any) -> str:
        metadata["name"] = "none"
        return ""

    with (
        patch.dict(os.environ, TRITON_CACHE_DIR=f"{triton.knobs.cache.dir}/llvm"),
        patch.object(CUDABackend, "make_ptx", make_ptx),
        patch.object(CUDABackend, "make_cubin", lambda *_: b""),
    ):
        yield


def _aligned(kernel: Any, types: dict[str, str]) -> dict[tuple[int], list[list[Any]]]:
    """Return the attributes of pointers, which are aligned to 16 bytes, so that loads are as wide as on a GPU."""
    pointers = [name for name, kind in types.items() if kind.startswith("*")]
    return {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in pointers}


def _type(value: Any) -> str:
    if isinstance(value, Tensor):
        return _TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32" if abs(value) < 1 << 31 else "i64"


def one_layer() -> Sizes:
    """Return S2-Pro's sizes with one layer in each stack."""
    sizes = s2_pro()
    config = sizes.dual_ar
    one = replace(config, slow=replace(config.slow, n_layer=1), fast=replace(config.fast, n_layer=1))
    return replace(sizes, dual_ar=one)


def run_product(dtype: torch.dtype, rows: int) -> None:
    """Run a product with 8-bit weights."""
    x, values = torch.empty(rows, 2560, dtype=torch.bfloat16, device=META), torch.empty(6144, 2560, device=META)
    weight = StoredWeight(values.to(dtype), torch.empty(6144, 1, dtype=torch.bfloat16, device=META))
    multiply = gemv if rows <= FEW_ROWS else narrow_gemm
    multiply(x, weight)


def run_elementwise() -> None:
    """Run the kernels between products of many rows."""
    x = torch.empty(MANY_ROWS, 2560, dtype=torch.bfloat16, device=META)
    rms_norm(x, x[0], 1e-6)
    gate(x)


def run_attention() -> None:
    """Run attention in fp32, whose keys and values need the most shared memory, whether or not a row may have more
    splits than programs."""
    rows, heads, groups, width, positions = 4, 32, 8, 128, 512
    fused = torch.empty(rows, (heads + 2 * groups) * width, device=META)
    cache = torch.empty(2, rows, groups, positions, width, device=META)
    places = torch.empty(rows, dtype=torch.long, device=META)
    rope, norm = torch.empty(positions, width // 2, dtype=torch.complex64, device=META), torch.empty(width, device=META)
    attend_new(fused, cache, places, places, rope, norm, norm, 1e-6, torch.empty(rows, heads, width, device=META))


def run_decoder() -> None:
    """Decode a frame with fused convolutions."""
    with META:
        decoder = CodecDecoder(s2_pro().codec)
    set_backend(decoder, FusedConvolutions())
    codes = torch.zeros(1, decoder.config.num_codebooks, 1, dtype=torch.long, device=META)
    decoder.decode_step(codes, decoder.init_state())


@torch.no_grad()
def main() -> None:
    """Compile the kernels of frames, products and decoding."""
    os.environ["DISABLE_LLVM_OPT"] = "1"
    compiler = Compiler()
    with patch.object(JITFunction, "run", lambda *given, **options: compiler.launch(*given, **options)):
        for precision in ("bf16", "int8"):
            meta_frame(one_layer(), POSITIONS, merged=True, fused=True, sampling=True, precision=precision)()
        for dtype, rows in ((torch.int8, MANY_ROWS), (torch.float8_e4m3fn, 1), (torch.float8_e4m3fn, MANY_ROWS)):
            run_product(dtype, rows)
        run_elementwise()
        run_decoder()
        run_attention()
    for name, capability in sorted(compiler.compiled):
        print(f"{name} sm_{capability}")


if __name__ == "__main__":
    main()
