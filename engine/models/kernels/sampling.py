"""Sampling in two kernels: the noise of a frame, and one draw from logits."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.models import sampling as plain
from engine.models.kernels.launch import dependent_launch, release_next, wait_for_previous
from engine.models.sampling import RowOptions

_MAX_TOP_K = tl.constexpr(plain.MAX_TOP_K)
_GREEDY = tl.constexpr(plain.GREEDY)
_GOLDEN, _MIX_1, _MIX_2 = tl.constexpr(plain.GOLDEN), tl.constexpr(plain.MIX_1), tl.constexpr(plain.MIX_2)
_FREER_TEMPERATURE = tl.constexpr(plain.REPETITION_TEMPERATURE)
_FREER_TOP_P = tl.constexpr(plain.REPETITION_TOP_P)
_VALUES_OF_A_WARP = 1024  # one warp needs no barriers


def gumbel_noise(keys: Tensor, frames: Tensor, draws: int, candidates: int) -> Tensor:
    """Return noise `[B, draws, candidates]` fp32. Reference implementation: `engine.models.sampling.gumbel_noise`."""
    out = torch.empty(len(keys), draws, candidates, dtype=torch.float32, device=keys.device)
    _noise[(len(keys), draws)](
        keys, frames, out, DRAWS=draws, CANDIDATES=candidates, BLOCK=triton.next_power_of_2(candidates)
    )
    return out


@triton.jit
def _shifted(x, BITS: tl.constexpr):
    return (x >> BITS) & ((1 << (64 - BITS)) - 1)


@triton.jit
def _noise(keys, frames, out, DRAWS: tl.constexpr, CANDIDATES: tl.constexpr, BLOCK: tl.constexpr):
    row, draw = tl.program_id(0), tl.program_id(1)
    rank = tl.arange(0, BLOCK)
    counter = tl.load(frames + row) * (DRAWS * _MAX_TOP_K) + (draw * _MAX_TOP_K + rank).to(tl.int64)
    x = tl.load(keys + row) + counter * _GOLDEN
    x = (x ^ _shifted(x, 30)) * _MIX_1
    x = (x ^ _shifted(x, 27)) * _MIX_2
    x = x ^ _shifted(x, 31)
    uniform = (_shifted(x, 41).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2^-23
    rest = 1.0 - uniform
    # A fast logarithm of nearly 1 may be 0 or positive, so its series is used there.
    series = rest * (1.0 + rest * (0.5 + rest * (0.3333333333333333 + rest * 0.25)))
    waiting = tl.where(rest < 0.01, series, -tl.log(uniform))
    place = (row * DRAWS + draw) * CANDIDATES + rank
    tl.store(out + place, -tl.log(waiting), mask=rank < CANDIDATES)


def draw(logits: Tensor, options: RowOptions, noise: Tensor, recent: Tensor | None = None) -> Tensor:
    """Draw from logits `[B, V]` → values int64 `[B]`; of equal logits, the one with the lower index ranks first.

    noise: `[B, C]`; with `recent` `[B, W]` it is `[B, 2, C]`, and a value among the recent ones is drawn again.
    Reference implementation: `sample` and `sample_semantic` of `engine.models.sampling`.
    """
    rows, values = logits.shape
    candidates, redraws = noise.shape[-1], recent is not None
    out = torch.empty(rows, dtype=torch.long, device=logits.device)
    _draw[(rows,)](
        logits.contiguous(),
        noise,
        options.temperature.contiguous(),
        options.top_p.contiguous(),
        options.top_k.contiguous(),
        out if recent is None else recent.contiguous(),
        out,
        values,
        min(values, candidates),
        noise.stride(0),
        noise.stride(1) if redraws else 0,
        0 if recent is None else recent.shape[1],
        BLOCK=triton.next_power_of_2(values),
        WINDOW=1 if recent is None else triton.next_power_of_2(recent.shape[1]),
        REDRAWS=redraws,
        num_warps=max(1, min(8, triton.next_power_of_2(values) // _VALUES_OF_A_WARP)),
        **dependent_launch(logits.device),
    )
    return out


@triton.jit
def _draw(
    logits, noise, temperatures, top_ps, top_ks, recent, out, values, candidates, row_stride, redraw_stride, window,
    BLOCK: tl.constexpr, WINDOW: tl.constexpr, REDRAWS: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    release_next(DEPENDENT)
    wait_for_previous(DEPENDENT)
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    given = tl.load(logits + row * values + column, mask=column < values, other=-float("inf"))
    left = tl.where(column < values, _key(given, column), _lowest_key(given))
    wide = given.to(tl.float32)
    greatest = tl.max(wide, axis=0)
    log_sum = tl.log(tl.sum(tl.exp(wide - greatest), axis=0))
    temperature, top_p = tl.load(temperatures + row), tl.load(top_ps + row)
    greedy = temperature == 0.0
    inverse_temperature = tl.where(greedy, _GREEDY, 1.0 / tl.maximum(temperature, 1e-5))
    other_inverse_temperature = tl.where(greedy, _GREEDY, 1.0 / _FREER_TEMPERATURE)
    last = tl.minimum(tl.load(top_ks + row), candidates)
    most = tl.maximum(top_p, _FREER_TOP_P) if REDRAWS else top_p
    rank, mass = 0, 0.0
    best, found, other_best, other_found = -float("inf"), 0, -float("inf"), 0
    while (rank < last) & (mass <= most):  # later values are not kept
        highest = tl.max(left, axis=0)
        logit, value = _logit_and_value(highest, given)
        log_prob = logit - greatest - log_sum
        mass += tl.exp(log_prob)
        score = log_prob * inverse_temperature + tl.load(noise + row * row_stride + rank)
        better = ((rank == 0) | (mass <= top_p)) & (score > best)
        best, found = tl.where(better, score, best), tl.where(better, value, found)
        if REDRAWS:
            score = log_prob * other_inverse_temperature + tl.load(noise + row * row_stride + redraw_stride + rank)
            better = ((rank == 0) | (mass <= _FREER_TOP_P)) & (score > other_best)
            other_best, other_found = tl.where(better, score, other_best), tl.where(better, value, other_found)
        left = tl.where(left == highest, _lowest_key(given), left)
        rank += 1
    if REDRAWS:
        place = tl.arange(0, WINDOW)
        before = tl.load(recent + row * window + place, mask=place < window, other=-1)
        found = tl.where(tl.sum((before == found).to(tl.int32), axis=0) > 0, other_found, found)
    tl.store(out + row, found)


@triton.jit
def _key(logit, value):
    """Return integers in the order of logits, and of equal ones the lower value last: a GPU finds the highest of a warp
    in one instruction if they have 32 bits, as those of logits in 16 bits have."""
    BITS: tl.constexpr = logit.dtype.primitive_bitwidth
    bits = logit.to(tl.int16 if BITS == 16 else tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> (BITS - 1)) & ((1 << (BITS - 1)) - 1))  # flips the bits of negative numbers but the sign
    key = tl.int32 if BITS == 16 else tl.int64
    return (ordered.to(key) << BITS) | (((1 << BITS) - 1) - value.to(key))


@triton.jit
def _lowest_key(logit):
    return -(1 << (2 * logit.dtype.primitive_bitwidth - 1))


@triton.jit
def _logit_and_value(key, like):
    """Return what a key was made of, the logit in fp32."""
    BITS: tl.constexpr = like.dtype.primitive_bitwidth
    ordered = (key >> BITS).to(tl.int16 if BITS == 16 else tl.int32)
    bits = ordered ^ ((ordered >> (BITS - 1)) & ((1 << (BITS - 1)) - 1))
    value = ((1 << BITS) - 1) - (key & ((1 << BITS) - 1))
    return bits.to(like.dtype, bitcast=True).to(tl.float32), value.to(tl.int32)
