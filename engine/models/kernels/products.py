"""Products of few rows with a weight, with what comes before and after them. A weight in 8 bits is never widened in
memory."""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.models.kernels.elementwise import gated
from engine.models.kernels.launch import dependent_launch, release_next, wait_for_previous

# Up to this many rows are multiplied without matrix units.
FEW_ROWS = 2
# The most rows that kernels of our own multiply by a weight in 8 bits.
MAX_NARROW_ROWS = 64
_DOT_OUTPUTS, _DOT_COLUMNS = 16, 128
_LEAST_ROWS = 16  # of a product of matrices
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
# Kinds of stored values.
_WIDE, _INT8, _FP8 = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
# As a half, the bits of float8_e4m3fn are too small by this factor.
_FP8_FACTOR = tl.constexpr(256.0)


class StoredWeight(NamedTuple):
    """A weight as it is stored, contiguous: kernels read no strides.

    values: `[E, D]` in the dtype of activations, or in int8 or float8_e4m3fn with scales.
    scale: `[E, G]`, one for each D / G columns of a row; G is 1, or D / G a power of two, 16 or more.
    """

    values: Tensor
    scale: Tensor | None = None


class Tile(NamedTuple):
    """What a program of `gemv` reads at once: `columns` of `outputs` rows of the weight, `ahead` times before it knows
    its input."""

    outputs: int
    columns: int
    ahead: int
    warps: int


# Small enough that every processor of a large GPU has several programs, and large enough that these have several
# kilobytes under way. The fastest of two dozen for S2-Pro's weights on an H200 (docs/log.md).
_TILE, _LONG_TILE = Tile(4, 512, 5, 2), Tile(2, 1024, 3, 4)  # the second for weights with gates, too
_NARROW_TILE, _LONG_NARROW_TILE = Tile(4, 512, 5, 4), Tile(2, 512, 3, 4)
_LONG = 8192  # columns of a weight


def gemv(
    x: Tensor,
    weight: StoredWeight,
    bias: Tensor | None = None,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gates: bool = False,
) -> Tensor:
    """Multiply x `[B, D]`, B at most `FEW_ROWS` → `[B, E]`, or with `gates` `[B, E / 2]`.

    norm: weights `[D]` and epsilon of an `RMSNorm` of x before the product. Every program sums the squares of its row
        while it multiplies, and scales the sums, so that the norm does not delay the loads of the weight. Unlike by
        `rms_norm`, the normed row is not rounded.
    residual: `[B, E]`, added to the product after both have been rounded.
    gates: the weight is that of w1 above w3, without bias, and the result is silu(w1) * w3.

    Sums are in fp32. A row's result depends neither on the others nor on their number. Reference implementation:
    `F.linear(x, weight * scale, bias)`, `RMSNorm` and `FeedForward`.
    """
    (rows, width), stored = x.shape, weight.values
    outputs = len(stored) // 2 if gates else len(stored)
    out = x.new_empty(rows, outputs)
    tile = _tile(weight, gates)
    gains, eps = norm or (x, 0.0)
    # Rows side by side: the programs that read one tile of the weight run together and find it in the cache.
    _gemv_kernel[(rows, triton.cdiv(outputs, tile.outputs))](
        x, gains, x if residual is None else residual, _readable(stored), x if weight.scale is None else weight.scale,
        x if bias is None else bias, out, outputs, eps,
        OUTPUTS=tile.outputs, COLUMNS=_columns(weight, width, tile.columns), AHEAD=tile.ahead,
        NORMS=norm is not None, ADDS=residual is not None, GATES=gates, HAS_BIAS=bias is not None,
        num_warps=tile.warps, **_constants(weight), **dependent_launch(x.device),
    )  # fmt: skip
    return out


def _tile(weight: StoredWeight, gates: bool) -> Tile:
    is_long = weight.values.shape[1] > _LONG
    if weight.scale is not None:
        return _LONG_NARROW_TILE if is_long else _NARROW_TILE
    return _LONG_TILE if is_long or gates else _TILE


def narrow_gemm(x: Tensor, weight: StoredWeight, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """Multiply x `[B, D]`, B at most `MAX_NARROW_ROWS`, by a weight in 8 bits → `[B, E]`. Arguments as for `gemv`."""
    rows, outputs = len(x), len(weight.values)
    out = x.new_empty(rows, outputs)
    _gemm_kernel[(triton.cdiv(outputs, _DOT_OUTPUTS),)](
        x, _readable(weight.values), weight.scale, x if bias is None else bias, x if residual is None else residual,
        out, outputs, rows,
        OUTPUTS=_DOT_OUTPUTS, COLUMNS=_columns(weight, x.shape[1], _DOT_COLUMNS),
        ROWS=max(_LEAST_ROWS, triton.next_power_of_2(rows)), HAS_BIAS=bias is not None, ADDS=residual is not None,
        **_constants(weight), **dependent_launch(x.device),
    )  # fmt: skip
    return out


def _readable(values: Tensor) -> Tensor:
    """Return the values in a type that kernels read."""
    return values.view(torch.uint8) if values.dtype == torch.float8_e4m3fn else values


def _constants(weight: StoredWeight) -> dict[str, Any]:
    """Return what kernels need to know of a weight."""
    kind = {torch.int8: _INT8, torch.float8_e4m3fn: _FP8}.get(weight.values.dtype, _WIDE)
    groups = 0 if weight.scale is None else weight.scale.shape[1]
    return {"WIDTH": weight.values.shape[1], "GROUPS": groups, "KIND": kind.value}


def _columns(weight: StoredWeight, width: int, usual: int) -> int:
    """Return the columns that are read at once, those of one scale if a row has several."""
    groups = 1 if weight.scale is None else weight.scale.shape[1]
    return min(usual, triton.next_power_of_2(width)) if groups == 1 else width // groups


@triton.jit
def _widened(entry, KIND: tl.constexpr):
    """Widen stored values to fp32; those of float8_e4m3fn become too small by `_FP8_FACTOR`.

    A GPU converts integers an eighth as fast as it multiplies. So four values in a register become the last bits of
    floats, 2²³ + 128 + value, or the upper bits of halves. The interpreter has no assembler, and shows what is meant.
    """
    if KIND == _WIDE:
        wide = entry.to(tl.float32)
    elif KIND == _INT8:
        if _INTERPRETED:
            bits = entry.to(tl.uint8, bitcast=True).to(tl.int32) ^ 0x4B000080
            wide = bits.to(tl.float32, bitcast=True) - 8388736.0
        else:
            wide = tl.inline_asm_elementwise(
                """
                {
                .reg .b32 biased;
                xor.b32 biased, $4, 0x80808080;
                prmt.b32 $0, biased, 0x4B000000, 0x7440;
                prmt.b32 $1, biased, 0x4B000000, 0x7441;
                prmt.b32 $2, biased, 0x4B000000, 0x7442;
                prmt.b32 $3, biased, 0x4B000000, 0x7443;
                add.f32 $0, $0, 0fCB000080;
                add.f32 $1, $1, 0fCB000080;
                add.f32 $2, $2, 0fCB000080;
                add.f32 $3, $3, 0fCB000080;
                }
                """,
                "=f,=f,=f,=f,r", [entry], dtype=tl.float32, is_pure=True, pack=4,
            )  # fmt: skip
    elif _INTERPRETED:
        bits = entry.to(tl.int32)
        half = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.uint16)
        wide = half.to(tl.float16, bitcast=True).to(tl.float32)
    else:
        wide = tl.inline_asm_elementwise(
            """
            {
            .reg .b32 low, high, low_size, high_size;
            .reg .b16 a, b, c, d;
            prmt.b32 low, $4, 0, 0x1404;
            prmt.b32 high, $4, 0, 0x3424;
            shr.u32 low_size, low, 1;
            shr.u32 high_size, high, 1;
            lop3.b32 low, low_size, low, 0x3F803F80, 0xE4;
            lop3.b32 high, high_size, high, 0x3F803F80, 0xE4;
            and.b32 low, low, 0xBF80BF80;
            and.b32 high, high, 0xBF80BF80;
            mov.b32 {a, b}, low;
            mov.b32 {c, d}, high;
            cvt.f32.f16 $0, a;
            cvt.f32.f16 $1, b;
            cvt.f32.f16 $2, c;
            cvt.f32.f16 $3, d;
            }
            """,
            "=f,=f,=f,=f,r", [entry], dtype=tl.float32, is_pure=True, pack=4,
        )  # fmt: skip
    return wide


@triton.jit
def _gemv_kernel(
    x, gains, residual, weight, scale, bias, out, outputs, eps,
    WIDTH: tl.constexpr, GROUPS: tl.constexpr, KIND: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr,
    AHEAD: tl.constexpr, NORMS: tl.constexpr, ADDS: tl.constexpr, GATES: tl.constexpr, HAS_BIAS: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    release_next(DEPENDENT)
    row, output = tl.program_id(0), tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    present = output < outputs
    x += row * WIDTH
    PARTS: tl.constexpr = (WIDTH + COLUMNS - 1) // COLUMNS
    # Tiles of the weight, of its gate, and of the norm. All loops are unrolled.
    entries = ()
    others = ()
    factors = ()
    for part in tl.static_range(PARTS):
        if part < AHEAD:
            entries = entries + (_entries(weight, output, present, part, WIDTH, COLUMNS),)
            if GATES:
                others = others + (_entries(weight, outputs + output, present, part, WIDTH, COLUMNS),)
            if NORMS:
                factors = factors + (_row(gains, part, WIDTH, COLUMNS),)
    gain = _gain(scale, output, present, GROUPS, KIND)
    other_gain = gain
    if GATES:
        other_gain = _gain(scale, outputs + output, present, GROUPS, KIND)
    shift = tl.zeros((OUTPUTS,), tl.float32)
    if HAS_BIAS:
        shift = tl.load(bias + output, mask=present, other=0.0).to(tl.float32)
    wait_for_previous(DEPENDENT)
    added = shift
    if ADDS:
        added = tl.load(residual + row * outputs + output, mask=present, other=0.0).to(tl.float32)
    first = tl.zeros((OUTPUTS, COLUMNS), tl.float32)
    second = first
    squares = tl.zeros((COLUMNS,), tl.float32)
    for part in tl.static_range(PARTS):
        if part + AHEAD < PARTS:
            entries = entries + (_entries(weight, output, present, part + AHEAD, WIDTH, COLUMNS),)
            if GATES:
                others = others + (_entries(weight, outputs + output, present, part + AHEAD, WIDTH, COLUMNS),)
            if NORMS:
                factors = factors + (_row(gains, part + AHEAD, WIDTH, COLUMNS),)
        wide = _row(x, part, WIDTH, COLUMNS)
        if NORMS:
            squares += wide * wide
            wide *= factors[part]
        first += _scaled(entries[part], scale, output, present, part, GROUPS, KIND) * wide[None, :]
        if GATES:
            second += _scaled(others[part], scale, outputs + output, present, part, GROUPS, KIND) * wide[None, :]
    root = 1.0
    if NORMS:
        root = tl.rsqrt(tl.sum(squares, axis=0) / WIDTH + eps)
    kind = out.dtype.element_ty
    result = tl.sum(first, axis=1) * gain * root + shift
    if GATES:
        result = gated(result.to(kind), (tl.sum(second, axis=1) * other_gain * root).to(kind)).to(tl.float32)
    if ADDS:
        result = result.to(kind).to(tl.float32) + added
    tl.store(out + row * outputs + output, result.to(kind), mask=present)


@triton.jit
def _row(values, part, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    """Load a part of a row in fp32."""
    column = part * COLUMNS + tl.arange(0, COLUMNS)
    if WIDTH % COLUMNS == 0:
        loaded = tl.load(values + column)
    else:
        loaded = tl.load(values + column, mask=column < WIDTH, other=0.0)
    return loaded.to(tl.float32)


@triton.jit
def _entries(weight, output, present, part, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    """Load a tile of the weight."""
    column = part * COLUMNS + tl.arange(0, COLUMNS)
    seen = present[:, None]
    if WIDTH % COLUMNS != 0:
        seen = seen & (column < WIDTH)[None, :]
    return tl.load(weight + output.to(tl.int64)[:, None] * WIDTH + column[None, :], mask=seen, other=0)


@triton.jit
def _scaled(entry, scale, output, present, part, GROUPS: tl.constexpr, KIND: tl.constexpr):
    """Widen a tile, and multiply it by its scales if a row has several."""
    wide = _widened(entry, KIND)
    if GROUPS > 1:
        wide *= tl.load(scale + output * GROUPS + part, mask=present, other=0.0).to(tl.float32)[:, None]
    return wide


@triton.jit
def _gain(scale, output, present, GROUPS: tl.constexpr, KIND: tl.constexpr):
    """Return the factors of the sums of `output`: the scales of rows that have one each."""
    factor = _FP8_FACTOR if KIND == _FP8 else 1.0
    if GROUPS == 1:
        gain = tl.load(scale + output, mask=present, other=0.0).to(tl.float32) * factor
    else:
        gain = tl.full(output.shape, factor, tl.float32)
    return gain


@triton.jit
def _gemm_kernel(
    x, weight, scale, bias, residual, out, outputs, rows,
    WIDTH: tl.constexpr, GROUPS: tl.constexpr, KIND: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr,
    ROWS: tl.constexpr, HAS_BIAS: tl.constexpr, ADDS: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    release_next(DEPENDENT)
    wait_for_previous(DEPENDENT)
    row, output = tl.arange(0, ROWS), tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    asked, present = row < rows, output < outputs
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for start in range(0, WIDTH, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < WIDTH
        value = tl.load(x + row[:, None] * WIDTH + column[None, :], mask=asked[:, None] & inside[None, :], other=0.0)
        place = output.to(tl.int64)[:, None] * WIDTH + column[None, :]
        entry = _widened(tl.load(weight + place, mask=present[:, None] & inside[None, :], other=0), KIND)
        part = tl.dot(value, tl.trans(entry.to(value.dtype)), input_precision="ieee")
        if GROUPS > 1:
            gain = tl.load(scale + output * GROUPS + start // COLUMNS, mask=present, other=0.0).to(tl.float32)
            part *= gain[None, :]
        total += part
    total *= _gain(scale, output, present, GROUPS, KIND)[None, :]
    if HAS_BIAS:
        total += tl.load(bias + output, mask=present, other=0.0).to(tl.float32)[None, :]
    place, kept = row[:, None] * outputs + output[None, :], asked[:, None] & present[None, :]
    if ADDS:
        total = total.to(out.dtype.element_ty).to(tl.float32)
        total += tl.load(residual + place, mask=kept, other=0.0).to(tl.float32)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=kept)
