"""Keys and values of the positions seen so far, one pair of buffers a layer."""

import torch
from torch import Tensor


class KVCache:
    """Buffers `[B, H_kv, capacity, head_dim]` a layer, of which the first `length` positions are in use.

    A cache is made for the positions that a request can need and grows (doubling) should that be exceeded;
    going back to an earlier length is free, which is how a segment is spoken again.
    """

    def __init__(
        self,
        layers: int,
        batch: int,
        heads: int,
        head_dim: int,
        capacity: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        shape = (layers, 2, batch, heads, max(1, capacity), head_dim)
        self._buffer = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def capacity(self) -> int:
        return self._buffer.shape[4]

    def reserve(self, positions: int) -> None:
        """Make room for `positions` in all, keeping what is in use."""
        if positions <= self.capacity:
            return
        shape = list(self._buffer.shape)
        shape[4] = max(positions, 2 * self.capacity)
        grown = self._buffer.new_empty(shape)
        grown[:, :, :, :, : self.length] = self._buffer[:, :, :, :, : self.length]
        self._buffer = grown

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot go from {self.length} positions to {length}")
        self.length = length

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store k, v `[B, H_kv, T, head_dim]` behind the positions in use; views of all, the new ones included.

        `length` moves only with `advance`, once every layer has written.
        """
        end = self.length + k.shape[2]
        keys, values = self._buffer[layer, 0, :, :, :end], self._buffer[layer, 1, :, :, :end]
        keys[:, :, self.length :] = k
        values[:, :, self.length :] = v
        return keys, values

    def advance(self, positions: int) -> None:
        self.length += positions
