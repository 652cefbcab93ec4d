"""The transformer block that both stacks share.

Pre-norm RMSNorm, grouped-query attention over interleaved rotary pairs, SwiGLU (Qwen3's block as Fish Audio S2 and
S1 use it). Shapes: B batch, T new positions, S positions attended to, D width, H heads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.config import TransformerConfig
from engine.models.kv_cache import KVCache


class RMSNorm(nn.Module):
    """Normalised in fp32, cast back, then scaled: the order in which the released weights were trained."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), eps=self.eps).to(x.dtype) * self.weight


def rope_table(positions: int, head_dim: int, base: float) -> Tensor:
    """cos and sin of the rotary angles, `[positions, head_dim / 2, 2]` in bf16.

    The rounding is part of the model: the release was trained with a bf16 table, and its logits drift without it.
    """
    frequencies = 1.0 / base ** (torch.arange(0, head_dim, 2, device="cpu", dtype=torch.float32) / head_dim)
    angles = torch.arange(positions, device="cpu", dtype=torch.float32)[:, None] * frequencies
    return torch.stack((angles.cos(), angles.sin()), dim=-1).to(torch.bfloat16)


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Turn the pairs (x0, x1), (x2, x3), … of x `[B, H, T, head_dim]` by rope `[T, head_dim / 2, 2]`, in fp32."""
    even, odd = x.float().view(*x.shape[:-1], -1, 2).unbind(-1)
    cos, sin = rope.float().unbind(-1)
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2).to(x.dtype)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of the last T of S positions: q `[B, H, T, d]`, k and v `[B, H_kv, S, d]` → `[B, H, T, d]`."""
    (batch, heads, new, width), (groups, seen) = q.shape, k.shape[1:3]
    if new == 1:  # the heads of a group are rows of one product: keys and values are read once, never copied
        out = F.scaled_dot_product_attention(q.view(batch, groups, heads // groups, width), k, v)
        return out.view(batch, heads, 1, width)
    if new == seen:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != groups)
    position = torch.arange(seen, device=q.device)
    mask = position <= position[seen - new :, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=heads != groups)


class Attention(nn.Module):
    """Grouped-query attention with fused projections: all queries, then keys, then values."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.groups, self.head_dim = config.n_head, config.n_local_heads, config.head_dim
        width = self.heads * self.head_dim
        self.wqkv = nn.Linear(config.dim, width + 2 * self.groups * self.head_dim, bias=config.attention_qkv_bias)
        self.wo = nn.Linear(width, config.dim, bias=config.attention_o_bias)
        self.q_norm = RMSNorm(self.head_dim, config.norm_eps) if config.attention_qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, config.norm_eps) if config.attention_qk_norm else None

    def project(self, x: Tensor, rope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries `[B, H, T, d]`, keys and values `[B, H_kv, T, d]`, normed and turned."""
        batch, new, _ = x.shape
        fused = self.wqkv(x).view(batch, new, self.heads + 2 * self.groups, self.head_dim)
        q, k, v = fused.split((self.heads, self.groups, self.groups), dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        return rotate(q.transpose(1, 2), rope), rotate(k.transpose(1, 2), rope), v.transpose(1, 2)

    def forward(self, x: Tensor, rope: Tensor, cache: KVCache | None, layer: int) -> Tensor:
        q, k, v = self.project(x, rope)
        if cache is not None:
            k, v = cache.write(layer, k, v)
        out: Tensor = self.wo(attend(q, k, v).transpose(1, 2).flatten(2))
        return out


def embedding(entries: int, dim: int) -> nn.Embedding:
    """A table left unset. `nn.Embedding` draws its entries, for which torch loads its compiler even on the meta device:
    a second and a half, for values that a checkpoint replaces."""
    return nn.Embedding(entries, dim, _weight=torch.empty(entries, dim))


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
    """One layer: attention and feed-forward, each behind a norm and added to its input."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config.dim, config.intermediate_size)
        self.attention_norm = RMSNorm(config.dim, config.norm_eps)
        self.ffn_norm = RMSNorm(config.dim, config.norm_eps)

    def forward(self, x: Tensor, rope: Tensor, cache: KVCache | None, layer: int) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rope, cache, layer)
        out: Tensor = x + self.feed_forward(self.ffn_norm(x))
        return out


class Transformer(nn.Module):
    """A stack of blocks with its rotary table and final norm; the heads belong to who uses it."""

    rope: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = RMSNorm(config.dim, config.norm_eps)
        self.register_buffer(
            "rope", rope_table(config.max_seq_len, config.head_dim, config.rope_base), persistent=False
        )

    def new_cache(self, batch: int, capacity: int) -> KVCache:
        """An empty cache for this stack, in the dtype and on the device of its weights."""
        weight = self.norm.weight
        return KVCache(
            self.config.n_layer,
            batch,
            self.config.n_local_heads,
            self.config.head_dim,
            capacity,
            dtype=weight.dtype,
            device=weight.device,
        )

    def run(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """x `[B, T, D]` at the positions behind the cache's → the last block's output `[B, T, D]`, not yet normed."""
        start = 0 if cache is None else cache.length
        rope = self.rope[start : start + x.shape[1]]
        if cache is not None:
            cache.reserve(start + x.shape[1])
        for i, block in enumerate(self.layers):
            x = block(x, rope, cache, i)
        if cache is not None:
            cache.advance(x.shape[1])
        return x
