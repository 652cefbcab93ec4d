"""Attention of one new position in each row, over exact lengths, from the products of `wqkv` on."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

# Positions that one program reads, and how many at once.
SPLIT, _STEP = 256, 32
_LEAST_ROWS = 16  # of a product of matrices


def attend_new(
    fused: Tensor,
    cache: Tensor,
    positions: Tensor,
    lengths: Tensor,
    rope: Tensor,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
    out: Tensor,
) -> None:
    """Norm and rotate queries and keys, write keys and values to the cache, and attend → out `[B, H, d]`.

    fused: products of `wqkv` `[B, (H + 2 × H_kv) × d]`. cache: of one layer, `[2, N, H_kv, positions, d]`; row i writes
    to slot i, and attends to it. positions: of the new keys and values, int64 `[B]`. lengths: int64 `[B]`, the number
    of positions that a row attends to: the first ones of its slot and, counted as the last, the new one. rope:
    complex64 `[positions, d / 2]`. q_norm, k_norm: weights `[d]`, or None.

    Splits of `SPLIT` positions are read by programs of their own and joined by a second kernel; a short cache needs one
    split and no second kernel. Each program norms and rotates its queries again, which costs less than a kernel of its
    own; the program of a row's last split prepares, uses and writes the new key and value. A program past a row's end
    reads nothing. Reference implementation: `SelfAttention.project`, `StaticRowsView`'s writing, and `attend` over that
    length.
    """
    (rows, heads, width), (_, _, groups, kept, _) = out.shape, cache.shape
    split = min(SPLIT, max(_STEP, triton.next_power_of_2(kept)))
    splits, shared = triton.cdiv(kept, split), heads // groups
    parts = out if splits == 1 else fused.new_empty((rows, heads, splits, width), dtype=torch.float32)
    marks = out if splits == 1 else fused.new_empty((rows, heads, splits, 2), dtype=torch.float32)
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width), "SPLITS": splits, "SPLIT": split}
    _attend[(rows, groups, splits)](
        fused, cache, positions, lengths, torch.view_as_real(rope),
        fused if q_norm is None else q_norm, fused if k_norm is None else k_norm, eps,
        out, parts, marks, *cache.stride()[:4], 1 / math.sqrt(width),
        HEADS=heads, GROUPS=groups, SHARED=shared, SHARED_BLOCK=max(_LEAST_ROWS, triton.next_power_of_2(shared)),
        STEP=_STEP, NORMS=q_norm is not None, **sizes,
    )  # fmt: skip
    if splits > 1:
        _join[(rows, heads)](
            parts, marks, lengths, out, HEADS=heads, SPLITS_BLOCK=triton.next_power_of_2(splits), **sizes
        )


@triton.jit
def _attend(
    fused, cache, positions, lengths, rope, q_norm, k_norm, eps, out, parts, marks,
    kind_stride, slot_stride, group_stride, position_stride, scale,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, SHARED: tl.constexpr, SHARED_BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr, SPLITS: tl.constexpr, SPLIT: tl.constexpr, STEP: tl.constexpr, NORMS: tl.constexpr,
):  # fmt: skip
    row, group, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    last = tl.load(lengths + row).to(tl.int32) - 1
    begin = split * SPLIT
    if begin <= last:
        end = tl.minimum(last, begin + SPLIT)
        member, column = tl.arange(0, SHARED_BLOCK), tl.arange(0, BLOCK)
        head = group * SHARED + member
        mine = (member < SHARED)[:, None] & (column < WIDTH)[None, :]
        position = tl.load(positions + row)
        angles = rope + position * WIDTH
        vectors = fused + row * (HEADS + 2 * GROUPS) * WIDTH
        query = _rotated(vectors + head[:, None] * WIDTH, q_norm, eps, angles, column[None, :], mine, WIDTH, NORMS)
        base = cache + row.to(tl.int64) * slot_stride + group * group_stride
        most = tl.full((SHARED_BLOCK,), -float("inf"), tl.float32)
        mass = tl.zeros((SHARED_BLOCK,), tl.float32)
        total = tl.zeros((SHARED_BLOCK, BLOCK), tl.float32)
        if last < begin + SPLIT:  # the new position
            place, inside = column[None, :], (column < WIDTH)[None, :]
            source = vectors + (HEADS + group) * WIDTH + tl.zeros((1, 1), tl.int32)
            new_key = _rotated(source, k_norm, eps, angles, place, inside, WIDTH, NORMS)
            new_value = tl.load(source + GROUPS * WIDTH + place, mask=inside, other=0.0)
            target = base + position * position_stride + place
            tl.store(target, new_key, mask=inside)
            tl.store(target + kind_stride, new_value, mask=inside)
            most = tl.sum(query.to(tl.float32) * new_key.to(tl.float32), axis=1) * scale
            mass += 1.0
            total += new_value.to(tl.float32)
        for step in range(SPLIT // STEP):  # a step past the end loads nothing
            index = begin + step * STEP + tl.arange(0, STEP)
            seen = (index < end)[:, None] & (column < WIDTH)[None, :]
            kept = base + index[:, None] * position_stride + column[None, :]
            key = tl.load(kept, mask=seen, other=0.0)
            scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
            scores = tl.where((index < end)[None, :], scores, -float("inf"))
            higher = tl.maximum(most, tl.max(scores, axis=1))
            faded, weight = tl.exp(most - higher), tl.exp(scores - higher[:, None])
            value = tl.load(kept + kind_stride, mask=seen, other=0.0)
            total = total * faded[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
            mass = mass * faded + tl.sum(weight, axis=1)
            most = higher
        if SPLITS == 1:
            target = out + (row * HEADS + head)[:, None] * WIDTH + column[None, :]
            tl.store(target, (total / mass[:, None]).to(query.dtype), mask=mine)
        else:
            part = (row * HEADS + head) * SPLITS + split
            tl.store(parts + part[:, None] * WIDTH + column[None, :], total, mask=mine)
            tl.store(marks + part * 2, most, mask=member < SHARED)
            tl.store(marks + part * 2 + 1, mass, mask=member < SHARED)


@triton.jit
def _rotated(vectors, gains, eps, angles, column, inside, WIDTH: tl.constexpr, NORMS: tl.constexpr):
    """Load vectors `[n, BLOCK]`, norm them, and rotate the pairs of neighbouring columns."""
    own = tl.load(vectors + column, mask=inside, other=0.0)
    other = tl.load(vectors + (column ^ 1), mask=inside, other=0.0)  # of the same pair
    a, b = own.to(tl.float32), other.to(tl.float32)
    if NORMS:
        root = tl.rsqrt(tl.sum(a * a, axis=1, keep_dims=True) / WIDTH + eps)
        columns = column < WIDTH
        a = (a * root * tl.load(gains + column, mask=columns, other=0.0).to(tl.float32)).to(own.dtype).to(tl.float32)
        b = (b * root * tl.load(gains + (column ^ 1), mask=columns, other=0.0).to(tl.float32)).to(own.dtype)
        b = b.to(tl.float32)
    pair = angles + column // 2 * 2
    cos = tl.load(pair, mask=column < WIDTH, other=0.0)
    sin = tl.load(pair + 1, mask=column < WIDTH, other=0.0)
    return (a * cos + tl.where(column % 2 == 0, -b, b) * sin).to(own.dtype)


@triton.jit
def _join(
    parts, marks, lengths, out, HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    SPLITS: tl.constexpr, SPLITS_BLOCK: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    split, column = tl.arange(0, SPLITS_BLOCK), tl.arange(0, BLOCK)
    used = split * SPLIT < tl.load(lengths + row)
    part = (row * HEADS + head) * SPLITS + split
    most = tl.load(marks + part * 2, mask=used, other=-float("inf"))
    kept = tl.where(used, tl.exp(most - tl.max(most, axis=0)), 0.0)
    mass = tl.sum(kept * tl.load(marks + part * 2 + 1, mask=used, other=0.0), axis=0)
    inside = used[:, None] & (column < WIDTH)[None, :]
    total = tl.load(parts + part[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
    joined = tl.sum(total * kept[:, None], axis=0) / mass
    tl.store(out + (row * HEADS + head) * WIDTH + column, joined.to(out.dtype.element_ty), mask=column < WIDTH)
