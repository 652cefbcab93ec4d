"""The causal transformer with a limited window that sits in the encoder and on both sides of the quantizer.

Source: the codec of the Fish Audio S2-Pro release: pre-norm RMSNorm, interleaved rotary pairs, SwiGLU, layer
scale.
Shapes: B batch, T new positions, D width, H heads, d head width, W window.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.config import WindowedTransformerConfig
from engine.codec.streaming import State, StreamingModule, extend

# Queries are attended to in blocks of this many, so that memory grows with T and not with its square.
_BLOCK = 256
# The release saved rotary tables of at most this many positions.
_RELEASED_POSITIONS = 16_384


@dataclass
class AttentionState(State):
    """The past that a block of the transformer still attends to."""

    keys: Tensor  # [B, H, W - 1, d], already turned by the rotary angle
    values: Tensor  # [B, H, W - 1, d]


@dataclass
class TransformerState(State):
    """The blocks' pasts and how far the signal has come."""

    layers: tuple[AttentionState, ...]
    position: Tensor  # [B] int64: positions seen


@dataclass(frozen=True)
class Window:
    """Which keys a block of queries sees: `mask` `[B or 1, 1, queries, keys]`, true where it looks."""

    queries: slice
    keys: slice
    mask: Tensor


def rotary_table(position: Tensor, new: int, head_dim: int, base: float) -> Tensor:
    """cos and sin for the `new` positions from `position` `[B]` on: `[B, 1, new, head_dim / 2, 2]` fp32.

    The values are rounded to bf16, as those that the release was trained with, and up to the end of its
    longest table they are the same bit by bit. Behind it the angles are taken in fp64: an fp32 product would
    lose what the rounding keeps.
    """
    device = position.device
    frequencies = 1.0 / base ** (torch.arange(0, head_dim, 2, device=device, dtype=torch.float32) / head_dim)
    positions = (position[:, None] + torch.arange(new, device=device))[:, None, :, None]
    beyond = torch.remainder(positions.double() * frequencies.double(), 2 * math.pi).float()
    angles = torch.where(positions < _RELEASED_POSITIONS, positions.float() * frequencies, beyond)
    return torch.stack((angles.cos(), angles.sin()), dim=-1).to(torch.bfloat16).float()


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn the pairs (x0, x1), (x2, x3), … of x `[B, H, T, d]`, in fp32."""
    even, odd = x.float().view(*x.shape[:-1], -1, 2).unbind(-1)
    cos, sin = table.unbind(-1)
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2).to(x.dtype)


def windows(new: int, past: int, size: int, seen: Tensor) -> list[Window]:
    """Windows of `size` for `new` queries behind `past` kept keys, the last `seen` `[B]` of them real."""
    found = []
    for start in range(0, new, _BLOCK):
        end = min(start + _BLOCK, new)
        first = max(0, past + start - size + 1)
        query = torch.arange(past + start, past + end, device=seen.device)[:, None]
        key = torch.arange(first, past + end, device=seen.device)
        mask = (key <= query) & (key > query - size)
        real = key >= past - seen[:, None, None, None]
        found.append(Window(slice(start, end), slice(first, past + end), mask & real))
    return found


class RMSNorm(nn.Module):
    """Normalised in fp32, cast back, then scaled."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), eps=self.eps).to(x.dtype) * self.weight


class LayerScale(nn.Module):
    """A learned factor per channel on what a sublayer adds."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), 0.01))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Attention(nn.Module):
    """Causal attention within the window, on `[B, T, D]`."""

    def __init__(self, config: WindowedTransformerConfig) -> None:
        super().__init__()
        self.heads, self.head_dim, self.past = config.n_head, config.head_dim, config.window_size - 1
        self.wqkv = nn.Linear(config.dim, 3 * config.dim, bias=False)
        self.wo = nn.Linear(config.dim, config.dim, bias=False)

    def init_state(self, batch: int) -> AttentionState:
        shape = (batch, self.heads, self.past, self.head_dim)
        return AttentionState(self.wqkv.weight.new_zeros(shape), self.wqkv.weight.new_zeros(shape))

    def forward(self, x: Tensor, table: Tensor, seen: list[Window], state: AttentionState | None) -> Tensor:
        fused: Tensor = self.wqkv(x).view(*x.shape[:2], 3, self.heads, self.head_dim)
        q, k, v = fused.permute(2, 0, 3, 1, 4).unbind(0)  # each [B, H, T, d]
        q, k = rotate(q, table), rotate(k, table)
        if state is not None:
            k, v = extend(state.keys, k), extend(state.values, v)
        blocks = [
            F.scaled_dot_product_attention(q[:, :, w.queries], k[:, :, w.keys], v[:, :, w.keys], w.mask) for w in seen
        ]
        out: Tensor = self.wo(torch.cat(blocks, dim=2).transpose(1, 2).flatten(2))
        return out


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return out


class Block(nn.Module):
    """Attention and feed-forward, each pre-normed and scaled, on `[B, T, D]`."""

    def __init__(self, config: WindowedTransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config.dim, config.intermediate_size)
        self.attention_norm = RMSNorm(config.dim, config.norm_eps)
        self.ffn_norm = RMSNorm(config.dim, config.norm_eps)
        self.attention_layer_scale = LayerScale(config.dim)
        self.ffn_layer_scale = LayerScale(config.dim)

    def forward(self, x: Tensor, table: Tensor, seen: list[Window], state: AttentionState | None) -> Tensor:
        x = x + self.attention_layer_scale(self.attention(self.attention_norm(x), table, seen, state))
        out: Tensor = x + self.ffn_layer_scale(self.feed_forward(self.ffn_norm(x)))
        return out


class WindowedTransformer(StreamingModule[TransformerState]):
    """Blocks on `[B, D, T]`. With a state it carries the last W - 1 keys and values of each block."""

    def __init__(self, config: WindowedTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = RMSNorm(config.dim, config.norm_eps) if config.final_norm else nn.Identity()

    def init_state(self, batch: int) -> TransformerState:
        layers = tuple(block.attention.init_state(batch) for block in self.layers)  # type: ignore[union-attr, operator]
        device = next(self.parameters()).device
        return TransformerState(layers, torch.zeros(batch, dtype=torch.int64, device=device))

    def forward(self, x: Tensor, state: TransformerState | None = None) -> Tensor:
        new, size = x.shape[2], self.config.window_size
        position = x.new_zeros(1, dtype=torch.int64) if state is None else state.position
        table = rotary_table(position, new, self.config.head_dim, self.config.rope_base)
        seen = windows(new, 0 if state is None else size - 1, size, position)
        x = x.transpose(1, 2)
        for i, block in enumerate(self.layers):
            x = block(x, table, seen, None if state is None else state.layers[i])
        if state is not None:
            state.position += new
        out: Tensor = self.norm(x).transpose(1, 2)
        return out
