"""Keys and values of the positions seen so far, and the three ways in which attention reads them.

`Stretch`: new positions behind those of a slot (prompts; the Fast AR's few positions).
`ExactRows`: one new position in each of several slots, each of which reads exactly the positions that it has in use.
`StaticRows`: the same for the first slots at once, with shapes that do not depend on what the slots hold, as a CUDA
graph needs them.

Shapes: N slots, B rows of a step, T new positions, S positions attended to, H heads, H_kv key/value heads, d their
width.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Past(Protocol):
    """What attention needs to know of the positions before the new ones."""

    def positions(self, new: Tensor) -> Tensor:
        """Where the new positions 0 … T - 1, `[T]`, come to stand: `[T]`, or `[B, T]` when rows differ."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Keep k and v `[B, H_kv, T, d]`; queries `[B, H, T, d]` → what they find in all positions, `[B, H, T, d]`."""


class KVCache:
    """Buffers `[layers, 2, N, H_kv, positions, d]`. What a slot holds is known to whoever uses it, not to the cache."""

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
        # Not left unset: static rows multiply what they do not look at by zero, and a NaN would stay one.
        self.buffer = torch.zeros((layers, 2, slots, heads, positions, head_dim), dtype=dtype, device=device)

    @property
    def positions(self) -> int:
        return self.buffer.shape[4]

    def clear(self, slot: int) -> None:
        """Overwrite what a slot holds."""
        self.buffer[:, :, slot].zero_()

    def copy_out(self, slot: int, length: int) -> Tensor:
        """A copy of a slot's first positions, `[layers, 2, H_kv, length, d]`."""
        return self.buffer[:, :, slot, :, :length].clone()

    def copy_in(self, slot: int, kept: Tensor) -> None:
        """Put what `copy_out` gave, from any device, at the start of a slot."""
        self.buffer[:, :, slot, :, : kept.shape[3]].copy_(kept, non_blocking=True)


class Stretch:
    """T new positions behind the first `start` of one slot, or, in step, of all slots. A prompt's way in."""

    def __init__(self, cache: KVCache, start: int = 0, slot: int | None = None) -> None:
        self._buffer = cache.buffer if slot is None else cache.buffer[:, :, slot : slot + 1]
        self.start = start

    def positions(self, new: Tensor) -> Tensor:
        return new + self.start

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        end = self.start + k.shape[2]
        if end > self._buffer.shape[4]:
            raise ValueError(f"{end} positions do not fit a cache of {self._buffer.shape[4]}")
        keys, values = self._buffer[layer, :, :, :, :end].unbind(0)
        keys[:, :, self.start :] = k
        values[:, :, self.start :] = v
        return attend(q, keys, values)


class ExactRows:
    """Row i of a step is the new position `positions[i]` of slot `slots[i]`."""

    def __init__(self, cache: KVCache, slots: Sequence[int], positions: Sequence[int]) -> None:
        self._cache, self._rows = cache, list(zip(slots, positions, strict=True))
        self._positions = torch.tensor(positions, device=cache.buffer.device)

    def positions(self, new: Tensor) -> Tensor:
        return self._positions[:, None] + new

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = torch.empty_like(q)
        for row, (slot, position) in enumerate(self._rows):
            keys, values = self._cache.buffer[layer, :, slot : slot + 1, :, : position + 1].unbind(0)
            keys[0, :, position] = k[row, :, 0]
            values[0, :, position] = v[row, :, 0]
            out[row] = attend(q[row : row + 1], keys, values)[0]
        return out


class StaticRows:
    """Row i of a step is the new position `positions[i]` of slot i; all read the first `span` positions, masked."""

    def __init__(self, cache: KVCache, positions: Tensor, span: int) -> None:
        """positions: int64 `[B]`, on the cache's device."""
        self._buffer, self._positions, self._span = cache.buffer, positions, span
        self._rows = torch.arange(positions.shape[0], device=positions.device)
        self._mask = (torch.arange(span, device=positions.device) <= positions[:, None])[:, None, None]

    def positions(self, new: Tensor) -> Tensor:
        return self._positions[:, None] + new

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._buffer[layer].unbind(0)
        keys[self._rows, :, self._positions] = k[:, :, 0]
        values[self._rows, :, self._positions] = v[:, :, 0]
        batch = q.shape[0]
        return attend(q, keys[:batch, :, : self._span], values[:batch, :, : self._span], self._mask)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of the last T of S positions: q `[B, H, T, d]`, k and v `[B, H_kv, S, d]` → `[B, H, T, d]`.

    Causal. A single position sees all S, or those for which `mask` `[B, 1, 1, S]` is true.
    """
    # As plain numbers: what records a function may hand out sizes that are not.
    (batch, heads, new, width), (groups, seen) = map(int, q.shape), map(int, k.shape[1:3])
    if new == 1:  # the heads of a group are rows of one product: keys and values are read once, never copied
        grouped = q.reshape(batch, groups, heads // groups, width)
        return F.scaled_dot_product_attention(grouped, k, v, mask).view(batch, heads, 1, width)
    if new == seen:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != groups)
    position = torch.arange(seen, device=q.device)
    causal = position <= position[seen - new :, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal, enable_gqa=heads != groups)
