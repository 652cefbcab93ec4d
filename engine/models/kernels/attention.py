"""Attention of one new position in each row: its preparation in one kernel, and attention over exact lengths."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

# Positions that one program reads, and how many at once.
SPLIT, _STEP = 256, 32
_LEAST_ROWS = 16  # of a product of matrices


def place(
    fused: Tensor,
    cache: Tensor,
    positions: Tensor,
    rope: Tensor,
    heads: int,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
) -> Tensor:
    """Norm and rotate queries and keys, and write keys and values to the cache, in one kernel.

    fused: products of `wqkv` `[B, (H + 2 × H_kv) × d]`. cache: of one layer, `[2, N, H_kv, positions, d]`; row i writes
    to slot i. positions: int64 `[B]`. rope: complex64 `[positions, d / 2]`. q_norm, k_norm: weights `[d]`, or None.

    Returns: queries `[B, H, d]`. The twins are `SelfAttention.project` and the writing of `StaticRowsView`.
    """
    rows, (_, _, groups, _, width) = fused.shape[0], cache.shape
    queries = fused.new_empty(rows, heads, width)
    _place[(rows, heads + 2 * groups)](
        fused,
        queries,
        cache,
        positions,
        torch.view_as_real(rope),
        fused if q_norm is None else q_norm,
        fused if k_norm is None else k_norm,
        eps,
        *cache.stride()[:4],
        HEADS=heads,
        GROUPS=groups,
        WIDTH=width,
        BLOCK=triton.next_power_of_2(width // 2),
        NORMS=q_norm is not None,
    )
    return queries


@triton.jit
def _place(
    fused, queries, cache, positions, rope, q_norm, k_norm, eps,
    kind_stride, slot_stride, group_stride, position_stride,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, NORMS: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    pair = tl.arange(0, BLOCK)
    inside = pair < WIDTH // 2
    source = fused + (row * (HEADS + 2 * GROUPS) + head) * WIDTH + 2 * pair
    even, odd = tl.load(source, mask=inside, other=0.0), tl.load(source + 1, mask=inside, other=0.0)
    position = tl.load(positions + row)
    target = cache + row.to(tl.int64) * slot_stride + position * position_stride + 2 * pair
    if head >= HEADS + GROUPS:  # a value
        target += kind_stride + (head - HEADS - GROUPS) * group_stride
        tl.store(target, even, mask=inside)
        tl.store(target + 1, odd, mask=inside)
    else:
        a, b = even.to(tl.float32), odd.to(tl.float32)
        if NORMS:
            scale = tl.rsqrt((tl.sum(a * a, axis=0) + tl.sum(b * b, axis=0)) / WIDTH + eps)
            if head < HEADS:
                gain_a = tl.load(q_norm + 2 * pair, mask=inside, other=0.0).to(tl.float32)
                gain_b = tl.load(q_norm + 2 * pair + 1, mask=inside, other=0.0).to(tl.float32)
            else:
                gain_a = tl.load(k_norm + 2 * pair, mask=inside, other=0.0).to(tl.float32)
                gain_b = tl.load(k_norm + 2 * pair + 1, mask=inside, other=0.0).to(tl.float32)
            a = (a * scale * gain_a).to(even.dtype).to(tl.float32)
            b = (b * scale * gain_b).to(even.dtype).to(tl.float32)
        angle = rope + (position * (WIDTH // 2) + pair) * 2
        cos, sin = tl.load(angle, mask=inside, other=0.0), tl.load(angle + 1, mask=inside, other=0.0)
        if head < HEADS:
            target = queries + (row * HEADS + head) * WIDTH + 2 * pair
        else:
            target += (head - HEADS) * group_stride
        tl.store(target, (a * cos - b * sin).to(even.dtype), mask=inside)
        tl.store(target + 1, (a * sin + b * cos).to(even.dtype), mask=inside)


def attend_rows(queries: Tensor, cache: Tensor, lengths: Tensor) -> Tensor:
    """Attend to the first `lengths` positions of each row: queries `[B, H, d]` → `[B, H, d]`.

    cache: of one layer, `[2, N, H_kv, positions, d]`; row i attends to slot i. lengths: int64 `[B]`, 1 or more.

    Splits of `SPLIT` positions are read by programs of their own and joined by a second kernel; a short cache needs one
    split and no second kernel. A program past a row's end reads nothing. The twin is `attend` over that length.
    """
    (rows, heads, width), (_, _, groups, positions, _) = queries.shape, cache.shape
    split = min(SPLIT, max(_STEP, triton.next_power_of_2(positions)))
    splits, shared = triton.cdiv(positions, split), heads // groups
    out = torch.empty_like(queries)
    parts = out if splits == 1 else queries.new_empty((rows, heads, splits, width), dtype=torch.float32)
    marks = out if splits == 1 else queries.new_empty((rows, heads, splits, 2), dtype=torch.float32)
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width), "SPLITS": splits, "SPLIT": split}
    _attend[(rows, groups, splits)](
        queries, cache, lengths, out, parts, marks, *cache.stride()[:4], 1 / math.sqrt(width),
        HEADS=heads, SHARED=shared, SHARED_BLOCK=max(_LEAST_ROWS, triton.next_power_of_2(shared)), STEP=_STEP, **sizes,
    )  # fmt: skip
    if splits > 1:
        _join[(rows, heads)](
            parts, marks, lengths, out, HEADS=heads, SPLITS_BLOCK=triton.next_power_of_2(splits), **sizes
        )
    return out


@triton.jit
def _attend(
    queries, cache, lengths, out, parts, marks, kind_stride, slot_stride, group_stride, position_stride, scale,
    HEADS: tl.constexpr, SHARED: tl.constexpr, SHARED_BLOCK: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    SPLITS: tl.constexpr, SPLIT: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    row, group, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row).to(tl.int32)
    begin = split * SPLIT
    end = tl.minimum(length, begin + SPLIT)
    if begin < end:
        member, column = tl.arange(0, SHARED_BLOCK), tl.arange(0, BLOCK)
        head = group * SHARED + member
        mine = (member < SHARED)[:, None] & (column < WIDTH)[None, :]
        query = tl.load(queries + (row * HEADS + head)[:, None] * WIDTH + column[None, :], mask=mine, other=0.0)
        base = cache + row.to(tl.int64) * slot_stride + group * group_stride
        most = tl.full((SHARED_BLOCK,), -float("inf"), tl.float32)
        mass = tl.zeros((SHARED_BLOCK,), tl.float32)
        total = tl.zeros((SHARED_BLOCK, BLOCK), tl.float32)
        for step in range(SPLIT // STEP):  # a step past the end loads nothing
            position = begin + step * STEP + tl.arange(0, STEP)
            seen = (position < end)[:, None] & (column < WIDTH)[None, :]
            source = base + position[:, None] * position_stride + column[None, :]
            key = tl.load(source, mask=seen, other=0.0)
            scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
            scores = tl.where((position < end)[None, :], scores, -float("inf"))
            higher = tl.maximum(most, tl.max(scores, axis=1))
            kept, weight = tl.exp(most - higher), tl.exp(scores - higher[:, None])
            value = tl.load(source + kind_stride, mask=seen, other=0.0)
            total = total * kept[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
            mass = mass * kept + tl.sum(weight, axis=1)
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
