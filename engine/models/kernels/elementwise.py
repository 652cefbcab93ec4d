"""Two kernels of a block with many rows: a norm, and the gate of a feed-forward."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.models.kernels.launch import dependent_launch, release_next, wait_for_previous

_COLUMNS = 1024


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Norm rows x `[B, D]`. Reference implementation: `engine.layers.RMSNorm`, with the same rounding."""
    normed = torch.empty_like(x)
    rows, width = x.shape
    _rms_norm[(rows,)](x, weight, normed, width, eps, BLOCK=triton.next_power_of_2(width), **dependent_launch(x.device))
    return normed


@triton.jit
def _rms_norm(x, weight, normed, width, eps, BLOCK: tl.constexpr, DEPENDENT: tl.constexpr):
    release_next(DEPENDENT)
    column = tl.arange(0, BLOCK)
    inside = column < width
    gain = tl.load(weight + column, mask=inside, other=0.0)
    wait_for_previous(DEPENDENT)
    place = tl.program_id(0) * width + column
    value = tl.load(x + place, mask=inside, other=0.0)
    wide = value.to(tl.float32)
    root = tl.rsqrt(tl.sum(wide * wide, axis=0) / width + eps)
    even = (wide * root).to(value.dtype).to(tl.float32)
    tl.store(normed + place, (even * gain.to(tl.float32)).to(value.dtype), mask=inside)


def gate(both: Tensor) -> Tensor:
    """SwiGLU's gate in one kernel: `[B, 2 × H]`, the products of w1 and w3 side by side → silu(w1) * w3 `[B, H]`."""
    rows, hidden = both.shape[0], both.shape[1] // 2
    out = both.new_empty(rows, hidden)
    _gate[(rows, triton.cdiv(hidden, _COLUMNS))](both, out, hidden, BLOCK=_COLUMNS, **dependent_launch(both.device))
    return out


@triton.jit
def _gate(both, out, hidden, BLOCK: tl.constexpr, DEPENDENT: tl.constexpr):
    release_next(DEPENDENT)
    wait_for_previous(DEPENDENT)
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < hidden
    first = tl.load(both + row * 2 * hidden + column, mask=inside, other=0.0)
    second = tl.load(both + row * 2 * hidden + hidden + column, mask=inside, other=0.0)
    tl.store(out + row * hidden + column, gated(first, second), mask=inside)


@triton.jit
def gated(first, second):
    """Return silu(first) * second, rounded after each."""
    wide = first.to(tl.float32)
    opened = (wide / (1.0 + tl.exp(-wide))).to(first.dtype).to(tl.float32)
    return (opened * second.to(tl.float32)).to(first.dtype)
