"""Two kernels of a block: the norm of a sum, and the gate of a feed-forward."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_COLUMNS = 1024


def add_norm(x: Tensor, added: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Add and norm in one kernel: x and `added` `[B, D]` → (x + added, its `RMSNorm`), both `[B, D]`.

    Reference implementation: `x + added` and `engine.layers.RMSNorm`, with the same rounding. Without `added`, x is
    returned.
    """
    total = x if added is None else torch.empty_like(x)
    normed = torch.empty_like(x)
    rows, width = x.shape
    _add_norm[(rows,)](
        x,
        x if added is None else added,
        weight,
        total,
        normed,
        width,
        eps,
        ADDS=added is not None,
        BLOCK=triton.next_power_of_2(width),
    )
    return total, normed


@triton.jit
def _add_norm(x, added, weight, total, normed, width, eps, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < width
    place = tl.program_id(0) * width + column
    value = summed(x, added, place, inside, ADDS)
    if ADDS:
        tl.store(total + place, value, mask=inside)
    wide = value.to(tl.float32)
    root = tl.rsqrt(tl.sum(wide * wide, axis=0) / width + eps)
    tl.store(normed + place, scaled(value, root, tl.load(weight + column, mask=inside, other=0.0)), mask=inside)


@triton.jit
def summed(x, added, place, inside, ADDS: tl.constexpr):
    """Load x and, if it adds, the sum with `added`, rounded as x is."""
    value = tl.load(x + place, mask=inside, other=0.0)
    if ADDS:
        value = (value.to(tl.float32) + tl.load(added + place, mask=inside, other=0.0).to(tl.float32)).to(value.dtype)
    return value


@triton.jit
def scaled(value, root, gain):
    """Scale by the root of the mean square's inverse, then by the norm's weight, rounded after each."""
    even = (value.to(tl.float32) * root).to(value.dtype).to(tl.float32)
    return (even * gain.to(tl.float32)).to(value.dtype)


def gate(both: Tensor) -> Tensor:
    """SwiGLU's gate in one kernel: `[B, 2 × H]`, the products of w1 and w3 side by side → silu(w1) * w3 `[B, H]`."""
    rows, hidden = both.shape[0], both.shape[1] // 2
    out = both.new_empty(rows, hidden)
    _gate[(rows, triton.cdiv(hidden, _COLUMNS))](both, out, hidden, BLOCK=_COLUMNS)
    return out


@triton.jit
def _gate(both, out, hidden, BLOCK: tl.constexpr):
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
