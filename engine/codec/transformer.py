"""The windowed causal transformer of the codecs.

Source: the codec of the Fish Audio S2-Pro release: pre-norm RMSNorm, interleaved rotary pairs, SwiGLU, layer
scale. Other codecs may have other norms and feed-forwards.
Shapes: B batch, T new positions, D width, H heads, d head width, W window.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.streaming import StreamingModule, StreamingState, extend
from engine.layers import FeedForward, RMSNorm, SelfAttention, rotary_table

# Queries per block, so that memory is linear in T, not quadratic.
_BLOCK = 256
# Positions of the longest rotary table in the release.
_RELEASED_POSITIONS = 16_384


@dataclass
class AttentionState(StreamingState):
    """Past keys and values in the window of a block."""

    keys: Tensor  # [B, H, W - 1, d], rotated
    values: Tensor  # [B, H, W - 1, d]


@dataclass
class TransformerState(StreamingState):
    """States of all blocks, and the position in the signal."""

    layers: tuple[AttentionState, ...]
    position: Tensor  # [B] int64: positions so far


@dataclass(frozen=True)
class QueryBlock:
    """A block of queries with its keys. `mask` `[B or 1, 1, queries, keys]` is true where a query attends to a key."""

    queries: slice
    keys: slice
    mask: Tensor


def rotary_factors(position: Tensor, new: int, head_dim: int, base: float, *, rounded: bool = True) -> Tensor:
    """Return rotary factors of `new` positions, starting at `position` `[B]`: complex64 `[B, new, 1, head_dim / 2]`.

    Within the S2 release's longest table they are bitwise equal to its values. rounded: as in `rotary_table`.
    """
    positions = position[:, None] + torch.arange(new, device=position.device)
    table = rotary_table(positions, head_dim, base, fp32_positions=_RELEASED_POSITIONS, rounded=rounded)
    return table[:, :, None]


def query_blocks(new: int, past: int, window: int, valid: Tensor) -> list[QueryBlock]:
    """Divide `new` queries, which attend to `window` positions each, into blocks.

    There are `past` stored keys before them, of which the last `valid` `[B]` are valid.
    """
    found = []
    for start in range(0, new, _BLOCK):
        end = min(start + _BLOCK, new)
        first = max(0, past + start - window + 1)
        query = torch.arange(past + start, past + end, device=valid.device)[:, None]
        key = torch.arange(first, past + end, device=valid.device)
        mask = (key <= query) & (key > query - window)
        real = key >= past - valid[:, None, None, None]
        found.append(QueryBlock(slice(start, end), slice(first, past + end), mask & real))
    return found


class WindowedSizes(Protocol):
    """Sizes of a causal transformer. Each position attends to `window_size` positions, itself included.

    `final_norm`: whether an RMSNorm follows the last layer.
    """

    @property
    def n_layer(self) -> int: ...
    @property
    def n_head(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def window_size(self) -> int: ...
    @property
    def rope_base(self) -> float: ...
    @property
    def norm_eps(self) -> float: ...
    @property
    def final_norm(self) -> bool: ...


class LayerScale(nn.Module):
    """A learned factor per channel for the output of a sublayer."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), 0.01))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class WindowedAttention(SelfAttention):
    """Causal attention within the window, on `[B, T, D]`."""

    def __init__(self, config: WindowedSizes) -> None:
        super().__init__(config.dim, config.n_head, config.n_head, config.head_dim)
        self.past = config.window_size - 1

    def init_state(self, batch: int) -> AttentionState:
        shape = (batch, self.heads, self.past, self.head_dim)
        return AttentionState(self.wqkv.weight.new_zeros(shape), self.wqkv.weight.new_zeros(shape))

    def forward(self, x: Tensor, rope: Tensor, blocks: list[QueryBlock], state: AttentionState | None) -> Tensor:
        q, k, v = self.project(x, rope)
        if state is not None:
            k, v = extend(state.keys, k), extend(state.values, v)
        attended = [
            F.scaled_dot_product_attention(q[:, :, b.queries], k[:, :, b.keys], v[:, :, b.keys], b.mask) for b in blocks
        ]
        return self.output(torch.cat(attended, dim=2))


class WindowedTransformerBlock(nn.Module):
    """Attention and feed-forward, each pre-normed and scaled, on `[B, T, D]`."""

    def __init__(
        self,
        config: WindowedSizes,
        *,
        norm: Callable[[int, float], nn.Module] = RMSNorm,
        feed_forward: Callable[[int, int], nn.Module] = FeedForward,
    ) -> None:
        super().__init__()
        self.attention = WindowedAttention(config)
        self.feed_forward = feed_forward(config.dim, config.intermediate_size)
        self.attention_norm = norm(config.dim, config.norm_eps)
        self.ffn_norm = norm(config.dim, config.norm_eps)
        self.attention_layer_scale = LayerScale(config.dim)
        self.ffn_layer_scale = LayerScale(config.dim)

    def forward(self, x: Tensor, rope: Tensor, blocks: list[QueryBlock], state: AttentionState | None) -> Tensor:
        x = x + self.attention_layer_scale(self.attention(self.attention_norm(x), rope, blocks, state))
        out: Tensor = x + self.ffn_layer_scale(self.feed_forward(self.ffn_norm(x)))
        return out


class WindowedTransformer(StreamingModule[TransformerState]):
    """Blocks on `[B, D, T]`. The state holds the last W - 1 keys and values of each block."""

    def __init__(
        self,
        config: WindowedSizes,
        *,
        block: Callable[[WindowedSizes], WindowedTransformerBlock] = WindowedTransformerBlock,
        rounded: bool = True,
    ) -> None:
        """rounded: as in `rotary_table`."""
        super().__init__()
        self.config, self.rounded = config, rounded
        self.layers = nn.ModuleList(block(config) for _ in range(config.n_layer))
        self.norm = RMSNorm(config.dim, config.norm_eps) if config.final_norm else nn.Identity()

    def init_state(self, batch: int) -> TransformerState:
        layers = tuple(block.attention.init_state(batch) for block in self.layers)  # type: ignore[union-attr, operator]
        device = next(self.parameters()).device
        return TransformerState(layers, torch.zeros(batch, dtype=torch.int64, device=device))

    def forward(self, x: Tensor, state: TransformerState | None = None) -> Tensor:
        new, window = x.shape[2], self.config.window_size
        position = x.new_zeros(1, dtype=torch.int64) if state is None else state.position
        rope = rotary_factors(position, new, self.config.head_dim, self.config.rope_base, rounded=self.rounded)
        blocks = query_blocks(new, 0 if state is None else window - 1, window, position)
        x = x.transpose(1, 2)
        for i, block in enumerate(self.layers):
            x = block(x, rope, blocks, None if state is None else state.layers[i])
        if state is not None:
            state.position += new
        out: Tensor = self.norm(x).transpose(1, 2)
        return out
