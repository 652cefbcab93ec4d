"""The transformer stack shared by the Slow AR and the Fast AR.

Pre-norm RMSNorm, grouped-query attention over interleaved rotary pairs, SwiGLU (Qwen3's block as Fish Audio S2 and
S1 use it). Shapes: B batch, T new positions, S positions attended to, D width, H heads.
"""

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.layers import FeedForward, RMSNorm, SelfAttention, rotary_table
from engine.models.config import TransformerConfig
from engine.models.kv_cache import KVCache, KVView, attend


class StepBackend(Protocol):
    """The blocks of a stack, run for single positions in code for one kind of device."""

    def accepts(self, view: KVView) -> bool:
        """Return whether it runs new positions of a view."""

    def __call__(self, x: Tensor, view: Any) -> Tensor:
        """Run x `[B, T, D]` → `[B, T, D]`, as `Transformer.run` does."""


HeadBackend = Callable[[Tensor, Tensor], Tensor]
"""`Transformer.multiply_normed` in code for one kind of device."""


class FoldableRMSNorm(RMSNorm):
    """RMSNorm in few operations in fp32 on a CPU: it takes a third of `F.rms_norm`'s time and rounds differently."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__(dim, eps)
        self._dim, self._folded = dim, False
        # Has a value even while parameters are created on the meta device.
        self._eps = torch.tensor(eps, dtype=torch.float32, device="cpu")

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or x.device.type != "cpu":
            return super().forward(x)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self._eps, length, length, value=1 / self._dim).rsqrt_()
        return x * scale if self._folded else x * scale * self.weight

    def fold_into(self, *layers: nn.Linear) -> None:
        """Multiply this norm's weights into the layers that take its output, and set its own to 1."""
        for layer in layers:
            layer.weight = nn.Parameter(layer.weight * self.weight, requires_grad=False)
        self.weight = nn.Parameter(torch.ones_like(self.weight), requires_grad=False)
        self._folded = True


class QueryKeyNorm(FoldableRMSNorm):
    """The norm of queries and keys: normalised and scaled in fp32, then cast back, as in the reference."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32 or x.dtype != self.weight.dtype:  # as under autocast
            return super().forward(x.float()).to(x.dtype)
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply x `[…, D]` by the transpose of weight `[E, D]` → `[…, E]`.

    A batch `[B, T, D]` in fp32 on a CPU is multiplied row by row of the batch. There, matrix products of different
    heights round differently, so a request would draw other codes in a batch than alone; one product is not faster.
    """
    if not _is_row_by_row(x, weight):
        return F.linear(x, weight)
    return torch.bmm(x, _columns(weight, len(x)))


def _is_row_by_row(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dim() == 3 and x.dtype == torch.float32 and _multiplied_by_rows(weight) and torch.is_inference_mode_enabled()
    )


def _multiplied_by_rows(weight: Tensor) -> bool:
    plain = type(weight) in (Tensor, nn.Parameter)  # not quantized
    return plain and weight.dtype == torch.float32 and weight.device.type == "cpu"


def _columns(weight: Tensor, rows: int) -> Tensor:
    """View a weight `[E, D]` as one `[D, E]` for each row of a batch."""
    return weight.t().expand(rows, -1, -1)


def _product(x: Tensor, columns: Tensor, bias: Tensor | None) -> Tensor:
    product = torch.bmm(x, columns)
    return product if bias is None else product + bias


class BatchInvariantLinear(nn.Linear):
    """`nn.Linear` computed as in `linear`. Views of its weight are cached: one costs as much as a small step."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self._views: dict[int, Tensor] = {}  # by rows

    def forward(self, x: Tensor) -> Tensor:
        if not _is_row_by_row(x, self.weight):
            return F.linear(x, self.weight, self.bias)
        rows = len(x)
        view = self._views.get(rows)
        if view is None or view.data_ptr() != self.weight.data_ptr():
            view = self._views[rows] = _columns(self.weight, rows)
        return _product(x, view, self.bias)


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

    def project_head(self, x: Tensor, rope: Tensor, head: int) -> tuple[Tensor, Tensor]:
        """Project x `[B, T, D]` → queries of one query head and the keys of its group, `[B, T, d]` each."""
        q, k, _ = self.project(x, rope)
        return q[:, head], k[:, head * self.kv_heads // self.heads]

    def forward(self, x: Tensor, rope: Tensor, view: KVView | None, layer: int) -> Tensor:
        q, k, v = self.project(x, rope)
        return self.output(attend(q, k, v) if view is None else view.attend(layer, q, k, v))


def embedding(entries: int, dim: int) -> nn.Embedding:
    """Make an embedding table without initial values.

    `nn.Embedding` initialises its entries randomly, which loads torch's compiler even on the meta device: 1.5 s for
    values that a checkpoint replaces.
    """
    return nn.Embedding(entries, dim, _weight=torch.empty(entries, dim))


class TransformerBlock(nn.Module):
    """One layer: attention and feed-forward, each after a norm and added to its input."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = CachedAttention(config)
        self.feed_forward = FeedForward(config.dim, config.intermediate_size, linear=BatchInvariantLinear)
        self.attention_norm = FoldableRMSNorm(config.dim, config.norm_eps)
        self.ffn_norm = FoldableRMSNorm(config.dim, config.norm_eps)

    def prepare_for_decoding(self) -> None:
        """Merge w1 and w3 of the feed-forward into one product; in fp32 on a CPU, fold the norms into the layers that
        follow. In place and idempotent."""
        self.feed_forward.merge()
        behind = (self.attention_norm, self.attention.wqkv), (self.ffn_norm, self.feed_forward.w13)
        for norm, layer in behind:
            if isinstance(layer, nn.Linear) and _multiplied_by_rows(layer.weight):
                norm.fold_into(layer)

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
        self.norm = FoldableRMSNorm(config.dim, config.norm_eps)
        positions = torch.arange(config.max_seq_len, device="cpu")  # the table has values even on the meta device
        table = rotary_table(positions, config.head_dim, config.rope_base, rounded=config.rounded_rope)
        self.register_buffer("rope", table, persistent=False)
        self.step_backend: StepBackend | None = None  # set by `use_fused_steps` or `use_native_steps` after their check
        self.head_backend: HeadBackend | None = None  # set by `use_fused_steps`

    def prepare_for_decoding(self) -> None:
        """Arrange weights for single positions, in place. Call it once.

        See `TransformerBlock.prepare_for_decoding` for the blocks. In fp32 on a CPU, linear weights `[E, D]` are stored
        by columns, which halves the time and rounds differently.
        """
        for module in self.layers:
            cast(TransformerBlock, module).prepare_for_decoding()
        for layer in self._linear_layers() if self.is_batch_invariant else ():
            layer.weight = nn.Parameter(layer.weight.t().contiguous().t(), requires_grad=False)

    @property
    def is_batch_invariant(self) -> bool:
        """Whether a row of single positions has bit-identical results in any batch: on a CPU, in fp32 and in int8."""
        return all(_multiplied_by_rows(layer.weight) for layer in self._linear_layers())

    def _linear_layers(self) -> list[nn.Linear]:
        return [layer for layer in self.modules() if isinstance(layer, nn.Linear)]

    def new_cache(self, slots: int, positions: int) -> KVCache:
        """Create a cache for this stack, in the dtype and on the device of its weights."""
        weight = self.norm.weight
        config = self.config
        sizes = (config.n_layer, slots, config.n_local_heads, config.head_dim, positions)
        return KVCache(*sizes, dtype=weight.dtype, device=weight.device)

    def run(self, x: Tensor, view: KVView | None = None) -> Tensor:
        """Run the blocks on x `[B, T, D]` after the positions of `view` → `[B, T, D]`, without the final norm."""
        if self.step_backend is not None and view is not None and self.step_backend.accepts(view):
            return self.step_backend(x, view)
        return self.run_plain(x, view)

    def run_plain(self, x: Tensor, view: KVView | None = None) -> Tensor:
        """Run as `run` does, without the step backend."""
        new = x.shape[1]
        rope = self.rope[:new, None] if view is None else view.next_rope(self.rope, new)
        for i, block in enumerate(self.layers):
            x = block(x, rope, view, i)
        return x

    def multiply_normed(self, x: Tensor, head: Tensor) -> Tensor:
        """Multiply the final norm of x `[B, T, D]` by rows of a head `[E, D]` → `[B, T, E]`."""
        return linear(self.norm(x), head) if self.head_backend is None else self.head_backend(x, head)
