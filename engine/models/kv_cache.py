"""Key/value cache, and the views through which attention writes and reads it.

`ContiguousView`: several new positions of one slot, or the same positions of all slots (prompts).
`PackedView`: several new positions of several slots, side by side (prompts that are prefilled together).
`GrowingView`: the few positions of the Fast AR, which live for one frame and need no cache.
`UnpaddedRowsView`: one new position in each of several slots; each row reads exactly the positions in use.
`FrameView`: like `GrowingView`, in a buffer, so that fused kernels can write and read it.
`StaticRowsView`: one new position in each of the first slots, with shapes that do not depend on the slots' lengths, for
CUDA graphs. `StaticPromptView`: several new positions of one slot, likewise.

Shapes: N slots, B rows of a step, T new positions, S positions attended to, H heads, H_kv key/value heads, d their
width.
"""

import math
import mmap
from collections.abc import Sequence
from functools import cache, partial
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.transfer import to_device


class KVView(Protocol):
    """Access of attention to the positions before the new ones."""

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        """Return the values of a rotary table `[positions, d / 2]` at T = `new` positions `[T, 1, d / 2]`, or at one of
        each row `[B, 1, 1, d / 2]`.

        Called once for a run through all layers; growing views advance by `new`.
        """

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store k and v `[B, H_kv, T, d]`; attend with queries `[B, H, T, d]` to all positions → `[B, H, T, d]`."""


@runtime_checkable
class RowsView(KVView, Protocol):
    """A view of new positions in each row, which fused kernels write and read themselves.

    settled: whether all earlier positions were written before the step.
    """

    settled: bool

    def next_rows(self, new: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the buffer `[layers, 2, N, H_kv, positions, d]`, in which row i has slot i, the new positions int64
        `[new, B]`, and how many positions each attends to, int64 `[new, B]`. Called once for a run through all
        layers."""


@runtime_checkable
class SlotRowsView(KVView, Protocol):
    """A view of single positions of any slots, which native code writes and reads itself."""

    def slot_rows(self, new: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the buffer `[layers, 2, N, H_kv, positions, d]`, and the slots and the positions of the new rows, both
        int64 `[new · B]`, the first of each slot first. Called once for a run through all layers."""


class KVCache:
    """Buffer `[layers, 2, N, H_kv, positions, d]`. The caller tracks how many positions of a slot are in use."""

    def __init__(
        self,
        layers: int,
        slots: int,
        heads: int,
        head_dim: int,
        positions: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        # Zeros, not uninitialised: static rows multiply masked positions by zero, and a NaN would stay NaN.
        zeros = _untouched_zeros if torch.device(device).type == "cpu" else partial(torch.zeros, device=device)
        self.buffer = zeros((layers, 2, slots, heads, positions, head_dim), dtype=dtype)

    @property
    def positions(self) -> int:
        return self.buffer.shape[4]

    def clear(self, slot: int, start: int = 0) -> None:
        """Overwrite a slot with zeros from position `start` on, such as what an earlier request left there."""
        self.buffer[:, :, slot, :, start:].zero_()

    def copy_out(self, slot: int, length: int) -> Tensor:
        """Return a copy of a slot's first positions, `[layers, 2, H_kv, length, d]`."""
        return self.buffer[:, :, slot, :, :length].clone()

    def copy_in(self, slot: int, kept: Tensor) -> None:
        """Write the result of `copy_out`, from any device, to the start of a slot."""
        self.buffer[:, :, slot, :, : kept.shape[3]].copy_(kept, non_blocking=True)


class ContiguousView:
    """T new positions after the first `start` of one slot, or of every slot."""

    def __init__(self, cache: KVCache, start: int = 0, slot: int | None = None) -> None:
        self._buffer = cache.buffer if slot is None else cache.buffer[:, :, slot : slot + 1]
        self.start = start

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        return table[self.start : self.start + new, None]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        end = self.start + k.shape[2]
        if end > self._buffer.shape[4]:
            raise ValueError(f"{end} positions do not fit a cache of {self._buffer.shape[4]}")
        keys, values = self._buffer[layer, :, :, :, :end].unbind(0)
        keys[:, :, self.start :] = k
        values[:, :, self.start :] = v
        return attend(q, keys, values)


class PackedView:
    """New positions of several slots side by side in one row, followed by padding.

    Each part attends as in its own `ContiguousView`; the padding attends to nothing and is not kept.
    """

    def __init__(self, cache: KVCache, parts: Sequence[tuple[int, int, int]]) -> None:
        """parts: slot, first position and number of positions of each."""
        self._parts = [(ContiguousView(cache, start, slot), length) for slot, start, length in parts]
        places = [start + i for _, start, length in parts for i in range(length)]
        self._positions = to_device(torch.tensor(places), cache.buffer.device)

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        padding = new - len(self._positions)
        return table[F.pad(self._positions, (0, padding)) if padding else self._positions][:, None]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, at = torch.zeros_like(q), 0
        for view, length in self._parts:
            part = slice(at, at + length)
            out[:, :, part] = view.attend(layer, q[:, :, part], k[:, :, part], v[:, :, part])
            at += length
        return out


class GrowingView:
    """Positions from the first on, the same for all rows, for the lifetime of the view."""

    def __init__(self, layers: int) -> None:
        self._kept: list[tuple[Tensor, Tensor] | None] = [None] * layers
        self._length = 0

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        start, self._length = self._length, self._length + new
        return table[start : self._length, None]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        kept = self._kept[layer]
        if kept is not None:
            k, v = torch.cat((kept[0], k), dim=2), torch.cat((kept[1], v), dim=2)
        self._kept[layer] = k, v
        return attend(q, k, v)


class FrameView:
    """Like `GrowingView`, with the keys and values of B rows in the buffer of a cache."""

    settled = False

    def __init__(self, cache: KVCache) -> None:
        self._cache, self._length, self._start = cache, 0, 0
        self._counts: Tensor | None = None

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        self._start, self._length = self._length, self._length + new
        return table[self._start : self._length, None]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return ContiguousView(self._cache, self._start).attend(layer, q, k, v)

    def slot_rows(self, new: int) -> tuple[Tensor, Tensor, Tensor]:
        start, self._length = self._length, self._length + new
        return self._cache.buffer, *_frame_rows(int(self._cache.buffer.shape[2]), start, new)

    def next_rows(self, new: int) -> tuple[Tensor, Tensor, Tensor]:
        start, self._length = self._length, self._length + new
        buffer = self._cache.buffer
        if self._counts is None:
            self._counts = torch.arange(self._cache.positions + 1, device=buffer.device)[:, None].repeat(
                1, buffer.shape[2]
            )
        return buffer, self._counts[start : self._length], self._counts[start + 1 : self._length + 1]


class UnpaddedRowsView:
    """Row i of a step is the new position `positions[i]` of slot `slots[i]`, attended to without padding."""

    def __init__(self, cache: KVCache, slots: Sequence[int], positions: Sequence[int]) -> None:
        self._cache, self._rows = cache, list(zip(slots, positions, strict=True))
        self._positions = to_device(torch.tensor(positions), cache.buffer.device)

    def slot_rows(self, new: int) -> tuple[Tensor, Tensor, Tensor]:
        assert new == 1
        return self._cache.buffer, torch.tensor([slot for slot, _ in self._rows]), self._positions

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        return rows_of(table, self._positions)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = torch.empty_like(q)
        for row, (slot, position) in enumerate(self._rows):
            keys, values = self._cache.buffer[layer, :, slot : slot + 1, :, : position + 1].unbind(0)
            keys[0, :, position] = k[row, :, 0]
            values[0, :, position] = v[row, :, 0]
            out[row] = attend(q[row : row + 1], keys, values)[0]
        return out


class StaticRowsView:
    """Row i of a step is the new position `positions[i]` of slot i; all read the first `span` positions, masked.

    Where a slot has no values yet, it must have finite ones: a NaN would remain one under a mask.
    """

    settled = True

    def __init__(self, cache: KVCache, positions: Tensor, span: int, lengths: Tensor | None = None) -> None:
        """positions: int64 `[B]`, on the cache's device. lengths: int64 `[B]`, how many positions to attend to, for
        `next_rows`; by default all up to the new one."""
        self._buffer, self._positions, self._span = cache.buffer, positions, span
        self._lengths = lengths
        self._kept: tuple[Tensor, Tensor] | None = None

    def next_rows(self, new: int) -> tuple[Tensor, Tensor, Tensor]:
        assert new == 1
        lengths = self._positions + 1 if self._lengths is None else self._lengths
        return self._buffer, self._positions[None], lengths[None]

    def _plain(self) -> tuple[Tensor, Tensor]:
        """Return the rows `[B]` and the additive mask `[B, 1, 1, span]`, shared by all layers: a boolean mask would be
        converted again by each."""
        if self._kept is None:
            device = self._positions.device
            unseen = torch.arange(self._span, device=device) > self._positions[:, None]
            added = torch.zeros(unseen.shape, dtype=self._buffer.dtype, device=device).masked_fill_(unseen, -torch.inf)
            self._kept = torch.arange(len(self._positions), device=device), added[:, None, None]
        return self._kept

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        return rows_of(table, self._positions)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._buffer[layer].unbind(0)
        batch = q.shape[0]
        rows, added = self._plain()
        keys[rows, :, self._positions] = k[:, :, 0]
        values[rows, :, self._positions] = v[:, :, 0]
        return attend(q, keys[:batch, :, : self._span], values[:batch, :, : self._span], added)


class StaticPromptView:
    """T new positions of one slot; all read its first `span` positions, masked.

    What earlier requests left at `end` and behind it is read as zeros, because a NaN would remain one under a mask.
    """

    def __init__(self, cache: KVCache, slot: Tensor, positions: Tensor, end: Tensor, span: int) -> None:
        """slot, end: int64 `[1]`; positions: int64 `[T]`; all on the cache's device."""
        self._buffer, self._slot, self._positions, self._end, self._span = cache.buffer, slot, positions, end, span
        self._kept: tuple[Tensor, Tensor, Tensor] | None = None

    def next_rope(self, table: Tensor, new: int) -> Tensor:
        return table[self._positions][:, None]

    def _shared(self, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return what all layers share: the slot of each new position `[T]`, the additive mask
        `[1, 1, heads × T, span]`, and which positions are behind the end `[span, 1]`."""
        if self._kept is None:
            position = torch.arange(self._span, device=self._slot.device)
            unseen = position > self._positions[:, None]
            added = torch.zeros(unseen.shape, dtype=self._buffer.dtype, device=self._slot.device)
            added = added.masked_fill_(unseen, -torch.inf).repeat(heads, 1)[None, None]
            self._kept = self._slot.expand(len(self._positions)), added, (position >= self._end)[:, None]
        return self._kept

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._buffer[layer].unbind(0)
        (batch, heads, new, width), groups = q.shape, k.shape[1]
        rows, added, behind = self._shared(heads // groups)
        keys[rows, :, self._positions] = k[0].transpose(0, 1)
        values[rows, :, self._positions] = v[0].transpose(0, 1)
        keys, values = (
            each[:, :, : self._span].index_select(0, self._slot).masked_fill_(behind, 0) for each in (keys, values)
        )
        # Heads of a group are further queries of one head: kernels that take a mask do not accept shared keys.
        grouped = q.reshape(batch, groups, heads // groups * new, width)
        return F.scaled_dot_product_attention(grouped, keys, values, added).reshape(batch, heads, new, width)


def _untouched_zeros(shape: Sequence[int], *, dtype: torch.dtype) -> Tensor:
    """Return zeros on the CPU that take memory only where they are written to, page by page."""
    pages = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=dtype).view(*shape)


@cache
def _frame_rows(rows: int, start: int, new: int) -> tuple[Tensor, Tensor]:
    """Return slots and positions of `new` positions of each row. Cached: in a trace they are constants."""
    with torch.inference_mode():
        slots = torch.arange(rows, device="cpu").repeat(new)
        positions = torch.arange(start, start + new, device="cpu").repeat_interleave(rows)
    return slots, positions


def rows_of(table: Tensor, positions: Tensor) -> Tensor:
    """Return the rotary values of one position `[B]` per row, `[B, 1, 1, d / 2]`."""
    return table[positions][:, None, None]


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend from the last T of S positions: q `[B, H, T, d]`, k and v `[B, H_kv, S, d]` → `[B, H, T, d]`.

    Causal. A single position sees all S; `mask` `[B, 1, 1, S]` is added to its scores.

    On GPUs prompts take flash attention in fp16 and bf16, which needs a causal order rather than a mask. In fp32 they
    take memory-efficient attention, or plain products if heads share keys, which it does not accept. Masked single
    positions take memory-efficient attention. `prepare_device` excludes cuDNN. The strides of the results differ from
    kernel to kernel, so they are reshaped, not viewed.
    """
    # Plain integers: under tracing, sizes are tensors.
    (batch, heads, new, width), (groups, seen) = map(int, q.shape), map(int, k.shape[1:3])
    if new == 1:  # heads of a group are rows of one product: keys and values are read once, not copied
        grouped = q.reshape(batch, groups, heads // groups, width)
        return F.scaled_dot_product_attention(grouped, k, v, mask).reshape(batch, heads, 1, width)
    if new == seen:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != groups)
    causal: Tensor
    if q.device.type == "cpu":
        position = torch.arange(seen)
        causal = position <= position[seen - new :, None]
    else:
        from torch.nn.attention.bias import causal_lower_right  # imports torch's compiler, a second of start-up

        causal = causal_lower_right(new, seen)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal, enable_gqa=heads != groups)
