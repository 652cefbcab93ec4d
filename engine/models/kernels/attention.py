"""Attention of one new position in each row, over exact lengths, from the products of `wqkv` on."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.models.kernels.launch import dependent_launch, release_next, wait_for_previous

# Positions that a program reads before it goes on with later ones. At once, it reads those that have this many bytes in
# each dimension, so that keys and values of 128 dimensions fit the 99 KiB of shared memory that small GPUs have.
SPLIT, _STEP_BYTES = 128, 128
# The most programs for a row's group of heads: few rows are as long as their slots, and programs without positions take
# time, too. The fastest for 310 to 610 positions on an H200 (docs/log.md).
_PROGRAMS_OF_FEW_ROWS, _PROGRAMS = 8, 4
_FEW_ROWS = 2
_WARPS = 4
_LEAST_ROWS = _LEAST_STEP = 16  # of a product of matrices


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
    *,
    settled: bool = False,
) -> None:
    """Norm and rotate queries and keys, write keys and values to the cache, and attend → out `[B, H, d]`.

    fused: products of `wqkv` `[B, (H + 2 × H_kv) × d]`. cache: of one layer, `[2, N, H_kv, positions, d]`; row i writes
    to slot i, and attends to it. positions: of the new keys and values, int64 `[B]`. lengths: int64 `[B]`, the number
    of positions that a row attends to: the first ones of its slot and, counted as the last, the new one. rope:
    complex64 `[positions, d / 2]`. q_norm, k_norm: weights `[d]`, or None. settled: whether no kernel of this step
    wrote positions before the new ones, which are then read while the kernel before this one ends.

    Splits of `SPLIT` positions go to several programs in turn, whose results a second kernel joins; a short cache needs
    one program and no second kernel. Each program norms and rotates its queries again, which costs less than a kernel
    of its own; the program of a row's last split prepares, uses and writes the new key and value. A program past a
    row's end reads nothing. Reference implementation: `SelfAttention.project`, `StaticRowsView`'s writing, and `attend`
    over that length.
    """
    (rows, heads, width), (_, _, groups, kept, _) = out.shape, cache.shape
    most = triton.next_power_of_2(max(kept, _LEAST_STEP))
    step = _STEP_BYTES // cache.itemsize
    split = min(SPLIT, most)
    splits, shared = triton.cdiv(kept, split), heads // groups
    programs = min(splits, _PROGRAMS_OF_FEW_ROWS if rows <= _FEW_ROWS else _PROGRAMS)
    parts = out if programs == 1 else fused.new_empty((rows, heads, programs, width), dtype=torch.float32)
    marks = out if programs == 1 else fused.new_empty((rows, heads, programs, 2), dtype=torch.float32)
    dependent = dependent_launch(fused.device)
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width), "PROGRAMS": programs, "SPLIT": split}
    _attend[(rows, groups, programs)](
        fused, cache, positions, lengths, torch.view_as_real(rope),
        fused if q_norm is None else q_norm, fused if k_norm is None else k_norm, eps,
        out, parts, marks, *cache.stride()[:4], 1 / math.sqrt(width),
        HEADS=heads, GROUPS=groups, SHARED=shared, SHARED_BLOCK=max(_LEAST_ROWS, triton.next_power_of_2(shared)),
        LONG=splits > programs, STEP=min(step, split), NORMS=q_norm is not None, SETTLED=settled, num_warps=_WARPS,
        **sizes, **dependent,
    )  # fmt: skip
    if programs > 1:
        block = triton.next_power_of_2(programs)
        _join[(rows, heads)](parts, marks, lengths, out, HEADS=heads, PROGRAMS_BLOCK=block, **sizes, **dependent)


@triton.jit
def _attend(
    fused, cache, positions, lengths, rope, q_norm, k_norm, eps, out, parts, marks,
    kind_stride, slot_stride, group_stride, position_stride, scale,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, SHARED: tl.constexpr, SHARED_BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr, LONG: tl.constexpr, PROGRAMS: tl.constexpr, SPLIT: tl.constexpr, STEP: tl.constexpr,
    NORMS: tl.constexpr, SETTLED: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    release_next(DEPENDENT)
    row, group, program = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    last = tl.load(lengths + row).to(tl.int32) - 1
    begin = program * SPLIT
    if begin <= last:  # in the first split of a row at least, so that the kernel waits for the one before
        end = tl.minimum(last, begin + SPLIT)
        member, column = tl.arange(0, SHARED_BLOCK), tl.arange(0, BLOCK)
        head = group * SHARED + member
        mine = (member < SHARED)[:, None] & (column < WIDTH)[None, :]
        position = tl.load(positions + row)
        base = cache + row.to(tl.int64) * slot_stride + group * group_stride
        place, inside = column[None, :], (column < WIDTH)[None, :]
        pair = rope + position * WIDTH + place // 2 * 2
        cos, sin = tl.load(pair, mask=inside, other=0.0), tl.load(pair + 1, mask=inside, other=0.0)
        q_gains = _gains(q_norm, place, inside, NORMS)
        k_gains = _gains(k_norm, place, inside, NORMS)
        if not SETTLED:
            wait_for_previous(DEPENDENT)
        key, value = _kept(base, begin, end, column, kind_stride, position_stride, WIDTH, STEP)
        if SETTLED:
            wait_for_previous(DEPENDENT)
        vectors = fused + row * (HEADS + 2 * GROUPS) * WIDTH
        query = _rotated(vectors + head[:, None] * WIDTH, place, mine, q_gains, eps, cos, sin, WIDTH, NORMS)
        most = tl.full((SHARED_BLOCK,), -float("inf"), tl.float32)
        mass = tl.zeros((SHARED_BLOCK,), tl.float32)
        total = tl.zeros((SHARED_BLOCK, BLOCK), tl.float32)
        if last // SPLIT % PROGRAMS == program:  # the new position
            source = vectors + (HEADS + group) * WIDTH + tl.zeros((1, 1), tl.int32)
            new_key = _rotated(source, place, inside, k_gains, eps, cos, sin, WIDTH, NORMS)
            new_value = tl.load(source + GROUPS * WIDTH + place, mask=inside, other=0.0)
            target = base + position * position_stride + place
            tl.store(target, new_key, mask=inside)
            tl.store(target + kind_stride, new_value, mask=inside)
            most = tl.sum(query.to(tl.float32) * new_key.to(tl.float32), axis=1) * scale
            mass += 1.0
            total += new_value.to(tl.float32)
        most, mass, total = _attended(query, key, value, begin, end, scale, most, mass, total, STEP)
        for step in range(1, SPLIT // STEP):  # a step past the end loads nothing
            start = begin + step * STEP
            key, value = _kept(base, start, end, column, kind_stride, position_stride, WIDTH, STEP)
            most, mass, total = _attended(query, key, value, start, end, scale, most, mass, total, STEP)
        if LONG:  # a row may have more splits than programs
            for split in range(program + PROGRAMS, tl.cdiv(last, SPLIT), PROGRAMS):
                end = tl.minimum(last, split * SPLIT + SPLIT)
                for step in range(SPLIT // STEP):
                    start = split * SPLIT + step * STEP
                    key, value = _kept(base, start, end, column, kind_stride, position_stride, WIDTH, STEP)
                    most, mass, total = _attended(query, key, value, start, end, scale, most, mass, total, STEP)
        if PROGRAMS == 1:
            target = out + (row * HEADS + head)[:, None] * WIDTH + column[None, :]
            tl.store(target, (total / mass[:, None]).to(query.dtype), mask=mine)
        else:
            part = (row * HEADS + head) * PROGRAMS + program
            tl.store(parts + part[:, None] * WIDTH + column[None, :], total, mask=mine)
            tl.store(marks + part * 2, most, mask=member < SHARED)
            tl.store(marks + part * 2 + 1, mass, mask=member < SHARED)


@triton.jit
def _kept(base, start, end, column, kind_stride, position_stride, WIDTH: tl.constexpr, STEP: tl.constexpr):
    """Load keys and values `[STEP, BLOCK]`, zeros from `end` on."""
    index = start + tl.arange(0, STEP)
    seen = (index < end)[:, None] & (column < WIDTH)[None, :]
    place = base + index[:, None] * position_stride + column[None, :]
    return tl.load(place, mask=seen, other=0.0), tl.load(place + kind_stride, mask=seen, other=0.0)


@triton.jit
def _attended(query, key, value, start, end, scale, most, mass, total, STEP: tl.constexpr):
    """Attend to more positions: the largest score, the sum of weights and that of weighted values."""
    scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    scores = tl.where((start + tl.arange(0, STEP) < end)[None, :], scores, -float("inf"))
    higher = tl.maximum(most, tl.max(scores, axis=1))
    faded, weight = tl.exp(most - higher), tl.exp(scores - higher[:, None])
    total = total * faded[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
    return higher, mass * faded + tl.sum(weight, axis=1), total


@triton.jit
def _gains(norm, column, inside, NORMS: tl.constexpr):
    """Load a norm's weights of columns, and of their neighbours in a pair."""
    if NORMS:
        own = tl.load(norm + column, mask=inside, other=0.0).to(tl.float32)
        other = tl.load(norm + (column ^ 1), mask=inside, other=0.0).to(tl.float32)
    else:
        own, other = 1.0, 1.0
    return own, other


@triton.jit
def _rotated(vectors, column, inside, gains, eps, cos, sin, WIDTH: tl.constexpr, NORMS: tl.constexpr):
    """Load vectors `[n, BLOCK]`, norm them, and rotate the pairs of neighbouring columns."""
    own = tl.load(vectors + column, mask=inside, other=0.0)
    other = tl.load(vectors + (column ^ 1), mask=inside, other=0.0)  # of the same pair
    a, b = own.to(tl.float32), other.to(tl.float32)
    if NORMS:
        root = tl.rsqrt(tl.sum(a * a, axis=1, keep_dims=True) / WIDTH + eps)
        a = (a * root * gains[0]).to(own.dtype).to(tl.float32)
        b = (b * root * gains[1]).to(own.dtype).to(tl.float32)
    return (a * cos + tl.where(column % 2 == 0, -b, b) * sin).to(own.dtype)


@triton.jit
def _join(
    parts, marks, lengths, out, HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    PROGRAMS: tl.constexpr, PROGRAMS_BLOCK: tl.constexpr, SPLIT: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    release_next(DEPENDENT)
    wait_for_previous(DEPENDENT)
    row, head = tl.program_id(0), tl.program_id(1)
    program, column = tl.arange(0, PROGRAMS_BLOCK), tl.arange(0, BLOCK)
    used = (program < PROGRAMS) & (program * SPLIT < tl.load(lengths + row))
    part = (row * HEADS + head) * PROGRAMS + program
    most = tl.load(marks + part * 2, mask=used, other=-float("inf"))
    kept = tl.where(used, tl.exp(most - tl.max(most, axis=0)), 0.0)
    mass = tl.sum(kept * tl.load(marks + part * 2 + 1, mask=used, other=0.0), axis=0)
    inside = used[:, None] & (column < WIDTH)[None, :]
    total = tl.load(parts + part[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
    joined = tl.sum(total * kept[:, None], axis=0) / mass
    tl.store(out + (row * HEADS + head) * WIDTH + column, joined.to(out.dtype.element_ty), mask=column < WIDTH)
