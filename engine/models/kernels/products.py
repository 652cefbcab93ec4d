"""Products of few rows with an 8-bit weight that is never widened in memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_ROWS = 64
# Up to this many rows are multiplied one by one, more of them together by matrix units.
_SINGLE_ROWS = 8
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
    and scaled before it is rounded. The twin is `F.linear(x, weight * scale)`. Up to eight rows, a row's result depends
    neither on the others nor on their number.
    """
    (rows, columns), outputs = x.shape, weight.shape[0]
    groups = scale.shape[1]
    fp8 = weight.dtype == torch.float8_e4m3fn
    out = x.new_empty(rows, outputs)
    stored, added = weight.view(torch.uint8) if fp8 else weight, x if bias is None else bias
    given = (x, stored, scale, added, out, outputs)
    kinds = {"WIDTH": columns, "GROUPS": groups, "FP8": fp8, "HAS_BIAS": bias is not None}
    if rows <= _SINGLE_ROWS:
        tile = _outputs_at_once(outputs)
        # Rows side by side: the programs that read one tile of the weight run together and find it in the cache.
        _row_product[(rows, triton.cdiv(outputs, tile))](
            *given, OUTPUTS=tile, COLUMNS=_TILE // tile if groups == 1 else columns // groups, **kinds
        )
    else:
        _rows_product[(triton.cdiv(outputs, _DOT_OUTPUTS),)](
            *given,
            rows,
            OUTPUTS=_DOT_OUTPUTS,
            ROWS=max(_LEAST_ROWS, triton.next_power_of_2(rows)),
            COLUMNS=_DOT_COLUMNS if groups == 1 else columns // groups,
            **kinds,
        )
    return out


def _outputs_at_once(outputs: int) -> int:
    """Return the outputs of a program. They decide the order of a sum, so they do not depend on the rows."""
    return next((tile for tile in _OUTPUTS if triton.cdiv(outputs, tile) >= _PROGRAMS), _OUTPUTS[-1])


@triton.jit
def _widened(entry, FP8: tl.constexpr):
    """Widen int8, or the bits of float8_e4m3fn, to fp32. The latter are a half with an exponent that is 8 too small."""
    if FP8:
        bits = entry.to(tl.int32)
        half = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.uint16)
        wide = half.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
    else:
        wide = entry.to(tl.float32)
    return wide


@triton.jit
def _row_product(
    x, weight, scale, bias, out, outputs,
    WIDTH: tl.constexpr, GROUPS: tl.constexpr, FP8: tl.constexpr, HAS_BIAS: tl.constexpr, OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    row, output = tl.program_id(0), tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    present = output < outputs
    total = tl.zeros((OUTPUTS, COLUMNS), tl.float32)
    for start in tl.range(0, WIDTH, COLUMNS, num_stages=_STAGES):  # loads ahead of the sums
        column = start + tl.arange(0, COLUMNS)
        inside = column < WIDTH
        value = tl.load(x + row * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
        place = output.to(tl.int64)[:, None] * WIDTH + column[None, :]
        entry = _widened(tl.load(weight + place, mask=present[:, None] & inside[None, :], other=0), FP8)
        if GROUPS > 1:
            gain = tl.load(scale + output * GROUPS + start // COLUMNS, mask=present, other=0.0).to(tl.float32)
            entry *= gain[:, None]
        total += entry * value[None, :]
    result = tl.sum(total, axis=1)
    if GROUPS == 1:
        result *= tl.load(scale + output, mask=present, other=0.0).to(tl.float32)
    if HAS_BIAS:
        result += tl.load(bias + output, mask=present, other=0.0).to(tl.float32)
    tl.store(out + row * outputs + output, result.to(out.dtype.element_ty), mask=present)


@triton.jit
def _rows_product(
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
