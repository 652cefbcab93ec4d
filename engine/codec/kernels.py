"""Causal convolutions of a decoder on a GPU's matrix units, in fp32's precision. For GPUs from Ampere on.

A matrix unit multiplies numbers with 11 bits of mantissa (TF32). So a number is split in two, its upper 11 bits and the
rest, and the three largest of the four products are added. Matrix units round sums towards zero, so they sum only a few
channels; these sums are added in fp32. Errors are smaller than those of cuDNN's convolutions in fp32.
Source: Ootomo and Yokota 2022, Recovering single precision accuracy from Tensor Cores.

Activations are `[B, T, C]` and contiguous here, so that all channels of a step are read at once, and weights are
`[taps, outputs, channels]`. B batch, T steps, C channels, E outputs.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_POSITIONS, _CHANNELS = 64, 32  # of a tile of elementwise work; the second also of what a matrix unit sums
_INTERPRETED_PROCESSORS = 132


class SnakeFactors(NamedTuple):
    """x + amplitude × sin²(frequency × x), with one of each per channel `[C]`."""

    frequency: Tensor
    amplitude: Tensor


class _Tile(NamedTuple):
    """What a program computes at once."""

    positions: int
    outputs: int
    warps: int
    stages: int


# The first of these that gives enough programs to each processor is used: larger ones read less, smaller ones keep more
# processors busy. The fastest choice of two hundred for S2-Pro's decoder on an H200 (docs/log.md).
_TILES = _Tile(128, 128, 8, 3), _Tile(256, 64, 8, 3), _Tile(64, 64, 4, 4), _Tile(128, 32, 4, 4), _Tile(64, 32, 4, 4)
_PROGRAMS_A_PROCESSOR = 1.5
_LEAST_OUTPUTS = 16


def extend(past: Tensor, x: Tensor, snake: SnakeFactors | None = None) -> tuple[Tensor, Tensor]:
    """Put x `[B, C, T]`, after `snake`, behind the past inputs of a convolution `[B, C, R]`. Both may have any strides.

    Returns: both together `[B, R + T, C]`, and its last R steps `[B, R, C]`.
    """
    batch, channels, steps = x.shape
    reach = past.shape[2]
    joined, kept = x.new_empty(batch, reach + steps, channels), x.new_empty(batch, reach, channels)
    grid = batch, triton.cdiv(reach + steps, _POSITIONS), triton.cdiv(channels, _CHANNELS)
    _extend[grid](
        past, x, *(snake or (x, x)), joined, kept, channels, reach, steps, *past.stride(), *x.stride(),
        POSITIONS=_POSITIONS, CHANNELS=_CHANNELS, ACTIVATES=snake is not None,
    )  # fmt: skip
    return joined, kept


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    dilation: int = 1,
    snake: SnakeFactors | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Convolve x `[B, R + T, C]`, R = (taps - 1) × dilation, with weights `[taps, E, C]` → `[B, T, E]`.

    snake: applied to the result. residual: `[B, T, E]`, added to it afterwards.
    """
    (taps, outputs, _), (batch, read) = weight.shape, x.shape[:2]
    steps = read - (taps - 1) * dilation
    out = x.new_empty(batch, steps, outputs)
    _launch(x, weight, bias, out, snake=snake, residual=residual, rows=batch * steps, steps=steps, shift=dilation)
    return out


def convolve_transposed(x: Tensor, weight: Tensor, bias: Tensor, overlap: Tensor) -> tuple[Tensor, Tensor]:
    """Apply a transposed convolution of stride S whose kernel has 2 × S taps: x `[B, T, C]` → `[B, T × S, E]`.

    weight: `[2, S × E, C]`, for an input's first S outputs and for the S after them. bias: `[E]`. overlap: `[B, E, S]`
    of any strides, what earlier inputs add to the first S outputs. Returns the outputs, and the next overlap
    `[B, S, E]`.
    """
    (batch, steps, _), (_, outputs, stride) = x.shape, overlap.shape
    out, kept = x.new_empty(batch, steps * stride, outputs), x.new_empty(batch, stride, outputs)
    _launch(x, weight, bias, out, rows=batch * (steps + 1), steps=steps + 1, shift=-1, overlap=overlap, kept=kept)
    return out, kept


def _launch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    out: Tensor,
    *,
    rows: int,
    steps: int,
    shift: int,
    snake: SnakeFactors | None = None,
    residual: Tensor | None = None,
    overlap: Tensor | None = None,
    kept: Tensor | None = None,
) -> None:
    taps, outputs, channels = weight.shape
    tile = _tile(rows, outputs, x.device)
    grid = (triton.cdiv(outputs, tile.outputs) * triton.cdiv(rows, tile.positions),)
    _convolve[grid](
        x, weight, bias, *(snake or (x, x)), x if residual is None else residual, out,
        x if overlap is None else overlap, x if kept is None else kept,
        rows, steps, x.shape[1], channels, outputs, len(bias), taps, shift,
        *((0, 0, 0) if overlap is None else overlap.stride()),
        POSITIONS=tile.positions, OUTPUTS=tile.outputs, CHANNELS=_CHANNELS,
        EVEN=channels % _CHANNELS == 0 and outputs % tile.outputs == 0, ACTIVATES=snake is not None,
        ADDS=residual is not None, TRANSPOSED=overlap is not None, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def _tile(rows: int, outputs: int, device: torch.device) -> _Tile:
    if outputs < _TILES[-1].outputs:
        return _TILES[-1]._replace(outputs=max(_LEAST_OUTPUTS, triton.next_power_of_2(outputs)))
    for tile in _TILES:
        programs = triton.cdiv(rows, tile.positions) * triton.cdiv(outputs, tile.outputs)
        if outputs % tile.outputs == 0 and programs >= _PROGRAMS_A_PROCESSOR * _processors(device):
            return tile
    return _TILES[-1]


@cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return _INTERPRETED_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def _activated(value, frequency, amplitude, channel, inside):
    """Apply the activation to values `[…, channels]`."""
    factor = tl.load(frequency + channel, mask=inside, other=0.0)[None, :]
    height = tl.load(amplitude + channel, mask=inside, other=0.0)[None, :]
    wave = tl.sin(factor * value)
    return value + wave * height * wave


@triton.jit
def _extend(
    past, x, frequency, amplitude, joined, kept, channels, reach, steps, past_batch, past_channel, past_step,
    x_batch, x_channel, x_step, POSITIONS: tl.constexpr, CHANNELS: tl.constexpr, ACTIVATES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    position = tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < channels
    old = (position < reach)[:, None] & inside[None, :]
    new = ((position >= reach) & (position < reach + steps))[:, None] & inside[None, :]
    before = past + row * past_batch + position[:, None] * past_step + channel[None, :] * past_channel
    after = x + row * x_batch + (position - reach)[:, None] * x_step + channel[None, :] * x_channel
    value = tl.load(after, mask=new, other=0.0)
    if ACTIVATES:
        value = _activated(value, frequency, amplitude, channel, inside)
    value = tl.where(old, tl.load(before, mask=old, other=0.0), value)
    place = position[:, None] * channels + channel[None, :]
    tl.store(joined + row * (reach + steps) * channels + place, value, mask=old | new)
    last = (position >= steps)[:, None] & (old | new)
    tl.store(kept + row * reach * channels + place - steps * channels, value, mask=last)


@triton.jit(do_not_specialize=["rows", "steps", "read", "taps", "shift", "overlap_batch", "overlap_phase"])
def _convolve(
    x, weight, bias, frequency, amplitude, residual, out, overlap, kept, rows, steps, read, channels, outputs, kinds,
    taps, shift, overlap_batch, overlap_output, overlap_phase,
    POSITIONS: tl.constexpr, OUTPUTS: tl.constexpr, CHANNELS: tl.constexpr, EVEN: tl.constexpr,
    ACTIVATES: tl.constexpr, ADDS: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(outputs, OUTPUTS)
    program = tl.program_id(0)
    output = program % blocks * OUTPUTS + tl.arange(0, OUTPUTS)
    row = program // blocks * POSITIONS + tl.arange(0, POSITIONS)
    asked, present = row < rows, output < outputs
    batch = row // steps
    step = row - batch * steps
    parts = tl.cdiv(channels, CHANNELS)
    column = tl.arange(0, CHANNELS)
    values = x + ((batch.to(tl.int64) * read + step) * channels)[:, None] + column[None, :]
    factors = weight + (output * channels)[None, :] + column[:, None]
    total = tl.zeros((POSITIONS, OUTPUTS), tl.float32)
    for i in range(taps * parts):
        tap = i // parts
        first = (i - tap * parts) * CHANNELS
        seen = asked
        if TRANSPOSED:
            source = step + tap * shift
            seen = asked & (source >= 0) & (source < read)
        if EVEN:
            value = tl.load(values + (tap * shift * channels + first), mask=seen[:, None], other=0.0)
            factor = tl.load(factors + (tap * outputs * channels + first))
        else:
            inside = first + column < channels
            value = tl.load(values + (tap * shift * channels + first), mask=seen[:, None] & inside[None, :], other=0.0)
            factor = tl.load(
                factors + (tap * outputs * channels + first), mask=present[None, :] & inside[:, None], other=0.0
            )
        value_high, factor_high = _high(value), _high(factor)
        part = tl.dot(value - value_high, factor_high, input_precision="tf32")
        part = tl.dot(value_high, factor - factor_high, part, input_precision="tf32")
        part = tl.dot(value_high, factor_high, part, input_precision="tf32")
        total += part
    kind = output % kinds
    shifts = tl.load(bias + kind, mask=present, other=0.0)[None, :]
    stored = asked[:, None] & present[None, :]
    if TRANSPOSED:  # the step after the last one has what the last input adds to the next outputs
        ends = (step == steps - 1)[:, None]
        place = (batch.to(tl.int64) * outputs)[:, None] + output[None, :]
        tl.store(kept + place, total, mask=stored & ends)
        begins = stored & (step == 0)[:, None]
        phase = output // kinds
        earlier = overlap + (batch * overlap_batch)[:, None] + (kind * overlap_output + phase * overlap_phase)[None, :]
        total += tl.load(earlier, mask=begins, other=0.0) + shifts
        place = (batch.to(tl.int64) * (steps - 1) + step)[:, None] * outputs + output[None, :]
        tl.store(out + place, total, mask=stored & (step < steps - 1)[:, None])
    else:
        total += shifts
        if ACTIVATES:
            total = _activated(total, frequency, amplitude, output, present)
        place = row.to(tl.int64)[:, None] * outputs + output[None, :]
        if ADDS:
            total += tl.load(residual + place, mask=stored, other=0.0)
        tl.store(out + place, total, mask=stored)


@triton.jit
def _high(value):
    """Return the value without its last 13 bits, which TF32 does not have."""
    return (value.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
