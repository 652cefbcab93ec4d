"""The transformer stack that the Slow AR and the Fast AR share.

Pre-norm RMSNorm, grouped-query attention over interleaved rotary pairs, SwiGLU (Qwen3's block as Fish Audio S2 and
S1 use it). Shapes: B batch, T new positions, S positions attended to, D width, H heads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.config import TransformerConfig
from engine.layers import FeedForward, RMSNorm, SelfAttention, rotary_table
from engine.models.kv_cache import KVCache, KVView, attend


class UnfusedRMSNorm(RMSNorm):
    """RMSNorm of few elementwise operations in fp32: a third of `F.rms_norm`'s time on a CPU, other rounding."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            return super().forward(x)
        scale = x.square().sum(-1, keepdim=True).mul_(1 / x.shape[-1]).add_(self.eps).rsqrt_()
        return x * scale * self.weight


class QueryKeyNorm(UnfusedRMSNorm):
    """The norm of queries and keys: normalised and scaled in fp32, then cast back, the reference's order here."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32 or x.dtype != self.weight.dtype:  # as under autocast
            return super().forward(x.float()).to(x.dtype)
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x `[…, D]` times weight `[E, D]`, transposed, plus bias → `[…, E]`.

    A batch `[B, T, D]` in fp32 on a CPU is multiplied row by row of the batch. There, matrix products of different
    heights round differently, and a request would draw other codes in a batch than alone; one product is not faster.
    """
    plain = x.dtype == torch.float32 and type(weight) in (Tensor, nn.Parameter)  # not quantized
    if x.dim() == 3 and x.device.type == "cpu" and plain and torch.is_inference_mode_enabled():
        product = torch.bmm(x, weight.t().expand(x.shape[0], -1, -1))
        return product if bias is None else product + bias
    return F.linear(x, weight, bias)


class BatchInvariantLinear(nn.Linear):
    """`nn.Linear` by way of `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class CachedAttention(SelfAttention):
    """Grouped-query attention that reads earlier positions through a `KVView`."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(
            config.dim,
            config.n_head,
            config.n_local_heads,
            config.head_dim,
            linear=BatchInvariantLinear,
            qkv_bias=config.attention_qkv_bias,
            output_bias=config.attention_o_bias,
        )
        if config.attention_qk_norm:
            self.q_norm = QueryKeyNorm(self.head_dim, config.norm_eps)
            self.k_norm = QueryKeyNorm(self.head_dim, config.norm_eps)

    def forward(self, x: Tensor, rope: Tensor, view: KVView | None, layer: int) -> Tensor:
        q, k, v = self.project(x, rope)
        return self.output(attend(q, k, v) if view is None else view.attend(layer, q, k, v))


def embedding(entries: int, dim: int) -> nn.Embedding:
    """Make an embedding table without initial values.

    `nn.Embedding` draws its entries, for which torch loads its compiler even on the meta device: 1.5 s for values that
    a checkpoint replaces.
    """
    return nn.Embedding(entries, dim, _weight=torch.empty(entries, dim))


class TransformerBlock(nn.Module):
    """One layer: attention and feed-forward, each behind a norm and added to its input."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = CachedAttention(config)
        self.feed_forward = FeedForward(config.dim, config.intermediate_size, linear=BatchInvariantLinear)
        self.attention_norm = UnfusedRMSNorm(config.dim, config.norm_eps)
        self.ffn_norm = UnfusedRMSNorm(config.dim, config.norm_eps)

    def forward(self, x: Tensor, rope: Tensor, view: KVView | None, layer: int) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rope, view, layer)
        out: Tensor = x + self.feed_forward(self.ffn_norm(x))
        return out


class Transformer(nn.Module):
    """A stack of blocks with its rotary table and final norm; subclasses add embeddings and heads."""

    rope: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(TransformerBlock(config) for _ in range(config.n_layer))
        self.norm = UnfusedRMSNorm(config.dim, config.norm_eps)
        positions = torch.arange(config.max_seq_len, device="cpu")  # the table has values on the meta device, too
        self.register_buffer("rope", rotary_table(positions, config.head_dim, config.rope_base), persistent=False)

    def new_cache(self, slots: int, positions: int) -> KVCache:
        """Make a cache for this stack, in the dtype and on the device of its weights."""
        weight = self.norm.weight
        config = self.config
        sizes = (config.n_layer, slots, config.n_local_heads, config.head_dim, positions)
        return KVCache(*sizes, dtype=weight.dtype, device=weight.device)

    def run(self, x: Tensor, view: KVView | None = None) -> Tensor:
        """Run the blocks on x `[B, T, D]` behind the positions of `view` → `[B, T, D]`, without the final norm."""
        positions = torch.arange(x.shape[1], device=x.device)
        rope = self.rope[positions if view is None else view.positions(positions)][..., None, :]
        for i, block in enumerate(self.layers):
            x = block(x, rope, view, i)
        return x
