"""Products of few rows with an 8-bit weight that is never widened in memory, and what comes before and after them."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.models.kernels.elementwise import gated, summed

MAX_ROWS = 64
# Up to this many rows are multiplied one by one, more of them together by matrix units.
SINGLE_ROWS = 8
# Outputs of a program, the most that leave every processor of a large GPU at least two programs to switch between.
_OUTPUTS = (16, 8, 4)
_PROGRAMS = 264
_DOT_OUTPUTS = 16
_TILE, _DOT_COLUMNS = 4096, 128  # values of the weight, and columns, that a program reads at once
_STAGES = tl.constexpr(4)
_LEAST_ROWS = 16  # of a product of matrices


def narrow_product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply x `[B, D]`, B at most `MAX_ROWS`, by a weight `[E, D]` in int8 or float8_e4m3fn → `[B, E]`.

    scale: `[E, G]`, one for each D / G columns of a row; G is 1, or D / G a power of two, 16 or more. The sum is fp32
    and scaled before it is rounded. Up to `SINGLE_ROWS` rows, a row's result depends neither on the others nor on their
    number. Reference implementation: `F.linear(x, weight * scale)`.
    """
    rows, outputs = len(x), len(weight)
    out = x.new_empty(rows, outputs)
    if rows <= SINGLE_ROWS:
        _multiply_rows(x, weight, scale, bias, out)
        return out
    stored, kinds = _stored(weight, scale)
    _gemm_kernel[(triton.cdiv(outputs, _DOT_OUTPUTS),)](
        x, stored, scale, x if bias is None else bias, out, outputs, rows,
        OUTPUTS=_DOT_OUTPUTS, COLUMNS=_columns(scale, x.shape[1], _DOT_COLUMNS),
        ROWS=max(_LEAST_ROWS, triton.next_power_of_2(rows)), HAS_BIAS=bias is not None, **kinds,
    )  # fmt: skip
    return out


def normed_product(
    x: Tensor,
    added: Tensor | None,
    norm: Tensor,
    eps: float,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    gates: bool = False,
) -> tuple[Tensor, Tensor]:
    """`add_norm`, `narrow_product` and, if wanted, `gate` in one kernel → (x + added, the product), for `SINGLE_ROWS`
    rows at most.

    norm: `[D]`. gates: weight is that of w1 above w3, without bias, and the product is silu(w1) * w3. Every program
    adds up the squares of its row while it multiplies, and scales the sums: a norm before the product would delay the
    loads of the weight. Unlike in the three kernels, the normed row is not rounded.
    """
    outputs = len(weight) // 2 if gates else len(weight)
    out = x.new_empty(len(x), outputs)
    total = x if added is None else torch.empty_like(x)
    _multiply_rows(x, weight, scale, bias, out, added, norm, total, eps, gates=gates)
    return total, out


def _multiply_rows(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    out: Tensor,
    added: Tensor | None = None,
    norm: Tensor | None = None,
    total: Tensor | None = None,
    eps: float = 0.0,
    *,
    gates: bool = False,
) -> None:
    (rows, width), outputs = x.shape, out.shape[1]
    stored, kinds = _stored(weight, scale)
    tile = _outputs_at_once(outputs)
    given = [x if tensor is None else tensor for tensor in (added, norm, total)]
    # Rows side by side: the programs that read one tile of the weight run together and find it in the cache.
    _gemv_kernel[(rows, triton.cdiv(outputs, tile))](
        x, *given, stored, scale, x if bias is None else bias, out, outputs, eps,
        OUTPUTS=tile, COLUMNS=_columns(scale, width, _TILE // tile), HAS_BIAS=bias is not None,
        ADDS=added is not None, NORMS=norm is not None, GATES=gates, **kinds,
    )  # fmt: skip


def _stored(weight: Tensor, scale: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Return the weight as the kernels read it, and what they need to know of it."""
    fp8 = weight.dtype == torch.float8_e4m3fn
    kinds = {"WIDTH": weight.shape[1], "GROUPS": scale.shape[1], "FP8": fp8}
    return weight.view(torch.uint8) if fp8 else weight, kinds


def _columns(scale: Tensor, width: int, usual: int) -> int:
    """Return the columns that are read at once, those of one scale if a row has several."""
    groups = scale.shape[1]
    return usual if groups == 1 else width // groups


def _outputs_at_once(outputs: int) -> int:
    """Return the outputs of a program. They decide the order of a sum, so they do not depend on the rows."""
    return next((tile for tile in _OUTPUTS if triton.cdiv(outputs, tile) >= _PROGRAMS), _OUTPUTS[-1])


@triton.jit
def _widened(entry, FP8: tl.constexpr):
    """Widen int8, or the bits of float8_e4m3fn, to fp32. As the bits of a half, the latter are too small by 2⁸."""
    if FP8:
        bits = entry.to(tl.int32)
        half = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.uint16)
        wide = half.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
    else:
        wide = entry.to(tl.float32)
    return wide


@triton.jit
def _gemv_kernel(
    x, added, norm, total, weight, scale, bias, out, outputs, eps,
    WIDTH: tl.constexpr, GROUPS: tl.constexpr, FP8: tl.constexpr, HAS_BIAS: tl.constexpr, OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr, ADDS: tl.constexpr, NORMS: tl.constexpr, GATES: tl.constexpr,
):  # fmt: skip
    row, output = tl.program_id(0), tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    present = output < outputs
    x += row * WIDTH
    added += row * WIDTH
    total += row * WIDTH
    first = tl.zeros((OUTPUTS, COLUMNS), tl.float32)
    second, squares = first, tl.zeros((COLUMNS,), tl.float32)
    for start in tl.range(0, WIDTH, COLUMNS, num_stages=_STAGES):  # loads ahead of the sums
        column = start + tl.arange(0, COLUMNS)
        inside = column < WIDTH
        value = summed(x, added, column, inside, ADDS)
        wide = value.to(tl.float32)
        if NORMS:
            if ADDS:
                tl.store(total + column, value, mask=inside & (tl.program_id(1) == 0))
            squares += wide * wide
            wide *= tl.load(norm + column, mask=inside, other=0.0).to(tl.float32)
        wide = wide[None, :]
        first += _entries(weight, scale, output, present, column, start, WIDTH, GROUPS, FP8, COLUMNS) * wide
        if GATES:
            second += (
                _entries(weight, scale, outputs + output, present, column, start, WIDTH, GROUPS, FP8, COLUMNS) * wide
            )
    root = 1.0
    if NORMS:
        root = tl.rsqrt(tl.sum(squares, axis=0) / WIDTH + eps)
    result = _result(first, scale, output, present, GROUPS) * root
    if HAS_BIAS:
        result += tl.load(bias + output, mask=present, other=0.0).to(tl.float32)
    if GATES:
        kind = out.dtype.element_ty
        other = _result(second, scale, outputs + output, present, GROUPS) * root
        result = gated(result.to(kind), other.to(kind)).to(tl.float32)
    tl.store(out + row * outputs + output, result.to(out.dtype.element_ty), mask=present)


@triton.jit
def _entries(
    weight, scale, output, present, column, start,
    WIDTH: tl.constexpr, GROUPS: tl.constexpr, FP8: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Load a tile of the weight in fp32, times its scales if a row has several."""
    place = output.to(tl.int64)[:, None] * WIDTH + column[None, :]
    entry = _widened(tl.load(weight + place, mask=present[:, None] & (column < WIDTH)[None, :], other=0), FP8)
    if GROUPS > 1:
        gain = tl.load(scale + output * GROUPS + start // COLUMNS, mask=present, other=0.0).to(tl.float32)
        entry *= gain[:, None]
    return entry


@triton.jit
def _result(total, scale, output, present, GROUPS: tl.constexpr):
    result = tl.sum(total, axis=1)
    if GROUPS == 1:
        result *= tl.load(scale + output, mask=present, other=0.0).to(tl.float32)
    return result


@triton.jit
def _gemm_kernel(
    x, weight, scale, bias, out, outputs, rows,
    WIDTH: tl.constexpr, GROUPS: tl.constexpr, FP8: tl.constexpr, HAS_BIAS: tl.constexpr, OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row, output = tl.arange(0, ROWS), tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    asked, present = row < rows, output < outputs
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for start in range(0, WIDTH, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < WIDTH
        value = tl.load(x + row[:, None] * WIDTH + column[None, :], mask=asked[:, None] & inside[None, :], other=0.0)
        place = output.to(tl.int64)[:, None] * WIDTH + column[None, :]
        entry = _widened(tl.load(weight + place, mask=present[:, None] & inside[None, :], other=0), FP8)
        part = tl.dot(value, tl.trans(entry.to(value.dtype)), input_precision="ieee")
        if GROUPS > 1:
            gain = tl.load(scale + output * GROUPS + start // COLUMNS, mask=present, other=0.0).to(tl.float32)
            part *= gain[None, :]
        total += part
    if GROUPS == 1:
        total *= tl.load(scale + output, mask=present, other=0.0).to(tl.float32)[None, :]
    if HAS_BIAS:
        total += tl.load(bias + output, mask=present, other=0.0).to(tl.float32)[None, :]
    place = row[:, None] * outputs + output[None, :]
    tl.store(out + place, total.to(out.dtype.element_ty), mask=asked[:, None] & present[None, :])
