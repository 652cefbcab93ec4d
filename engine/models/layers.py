"""The transformer block that both stacks share.

Pre-norm RMSNorm, grouped-query attention over interleaved rotary pairs, SwiGLU (Qwen3's block as Fish Audio S2 and
S1 use it). Shapes: B batch, T new positions, S positions attended to, D width, H heads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.config import TransformerConfig
from engine.models.kv_cache import KVCache, Past, attend


class RMSNorm(nn.Module):
    """Normalised in fp32, cast back, then scaled: the order in which the released weights were trained."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:  # one kernel, which normalises in fp32 and casts back
            return F.rms_norm(x, (x.shape[-1],), eps=self.eps) * self.weight
        # On a CPU a third of the time of `rms_norm`, which is made of more pieces there.
        scale = x.square().sum(-1, keepdim=True).mul_(1 / x.shape[-1]).add_(self.eps).rsqrt_()
        return x * scale * self.weight


def rope_table(positions: int, head_dim: int, base: float) -> Tensor:
    """cos + i sin of the rotary angles, complex64 `[positions, head_dim / 2]`, rounded to bf16.

    The rounding is part of the model: the release was trained with a bf16 table, and its logits drift without it.
    """
    frequencies = 1.0 / base ** (torch.arange(0, head_dim, 2, device="cpu", dtype=torch.float32) / head_dim)
    angles = torch.arange(positions, device="cpu", dtype=torch.float32)[:, None] * frequencies
    return torch.view_as_complex(torch.stack((angles.cos(), angles.sin()), dim=-1).to(torch.bfloat16).float())


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Turn the pairs (x0, x1), (x2, x3), … of x `[B, T, H, head_dim]` by rope `[…, T, 1, head_dim / 2]`, in fp32."""
    pairs = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2).to(x.dtype)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x `[…, D]` times weight `[E, D]`, transposed, plus bias → `[…, E]`.

    A batch `[B, T, D]` in fp32 on a CPU is multiplied row by row of the batch. There, matrix products of different
    heights round differently, and a request would not draw the same codes alone as in company; nor would it be faster.
    """
    plain = x.dtype == torch.float32 and type(weight) in (Tensor, nn.Parameter)  # not quantized
    if x.dim() == 3 and x.device.type == "cpu" and plain and torch.is_inference_mode_enabled():
        product = torch.bmm(x, weight.t().expand(x.shape[0], -1, -1))
        return product if bias is None else product + bias
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """`nn.Linear` by way of `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class Attention(nn.Module):
    """Grouped-query attention with fused projections: all queries, then keys, then values."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.groups, self.head_dim = config.n_head, config.n_local_heads, config.head_dim
        width = self.heads * self.head_dim
        self.wqkv = Linear(config.dim, width + 2 * self.groups * self.head_dim, bias=config.attention_qkv_bias)
        self.wo = Linear(width, config.dim, bias=config.attention_o_bias)
        self.q_norm = RMSNorm(self.head_dim, config.norm_eps) if config.attention_qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, config.norm_eps) if config.attention_qk_norm else None

    def project(self, x: Tensor, rope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries `[B, H, T, d]`, keys and values `[B, H_kv, T, d]`, normed and turned."""
        fused = self.wqkv(x).unflatten(-1, (-1, self.head_dim))
        turned, v = torch.split(fused, [self.heads + self.groups, self.groups], dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = torch.split(turned, [self.heads, self.groups], dim=2)
            turned = torch.cat((self.q_norm(q), self.k_norm(k)), dim=2)
        q, k = torch.split(rotate(turned, rope).transpose(1, 2), [self.heads, self.groups], dim=1)
        return q, k, v.transpose(1, 2)

    def forward(self, x: Tensor, rope: Tensor, past: Past | None, layer: int) -> Tensor:
        q, k, v = self.project(x, rope)
        found = attend(q, k, v) if past is None else past.attend(layer, q, k, v)
        out: Tensor = self.wo(found.transpose(1, 2).flatten(2))
        return out


def embedding(entries: int, dim: int) -> nn.Embedding:
    """A table left unset. `nn.Embedding` draws its entries, for which torch loads its compiler even on the meta device:
    a second and a half, for values that a checkpoint replaces."""
    return nn.Embedding(entries, dim, _weight=torch.empty(entries, dim))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.w1 = Linear(dim, hidden, bias=False)
        self.w3 = Linear(dim, hidden, bias=False)
        self.w2 = Linear(hidden, dim, bias=False)

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

    def forward(self, x: Tensor, rope: Tensor, past: Past | None, layer: int) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rope, past, layer)
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

    def new_cache(self, slots: int, positions: int) -> KVCache:
        """A cache for this stack, in the dtype and on the device of its weights."""
        weight = self.norm.weight
        config = self.config
        sizes = (config.n_layer, slots, config.n_local_heads, config.head_dim, positions)
        return KVCache(*sizes, dtype=weight.dtype, device=weight.device)

    def run(self, x: Tensor, past: Past | None = None) -> Tensor:
        """x `[B, T, D]` behind `past` → the last block's output `[B, T, D]`, not yet normed."""
        positions = torch.arange(x.shape[1], device=x.device)
        rope = self.rope[positions if past is None else past.positions(positions)][..., None, :]
        for i, block in enumerate(self.layers):
            x = block(x, rope, past, i)
        return x
