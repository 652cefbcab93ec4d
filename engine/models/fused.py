"""Fused kernels for single positions, five or six a layer instead of 28, and for sampling. For GPUs.

`use_fused_steps` gives a stack a `FusedStepBackend` after checking it against the plain run on the stack's own weights;
`use_fused_sampling` does the same for noise and draws. If they differ, or if Triton is missing or fails, the plain
versions stay in use.
Triton starts kernels on the thread's current GPU, which must be that of the weights.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.errors import first_line
from engine.models.agreement import (
    TOLERANCE,
    describe_sampling_difference,
    frame_difference,
    head_difference,
    largest,
    step_difference,
)
from engine.models.kv_cache import KVCache, KVView, RowsView, StaticRowsView
from engine.models.sampling import SamplingBackend
from engine.models.stacks import FastStack, SlowStack
from engine.models.transformer import FoldableRMSNorm, Transformer, TransformerBlock

if TYPE_CHECKING:
    from engine.models.kernels.products import StoredWeight

_LEAST_GROUP = 16  # columns per scale
_CHECKED_ROWS = 2, 20  # few rows, which kernels of our own multiply, and many


class FusedStepBackend:
    """The blocks of one stack, run for one new position in each row, or for the two at the beginning of a frame.

    Products of few rows include the norm before them, and the gate or the sum behind them. Those of many rows are
    cuBLAS's, unless weights have 8 bits.
    """

    def __init__(self, stack: Transformer) -> None:
        """stack: with merged feed-forwards. Raises ImportError without Triton."""
        from engine.models.kernels import attention, elementwise, products

        self._attention, self._elementwise, self._products = attention, elementwise, products
        self._stack = stack

    def accepts(self, view: KVView) -> bool:
        return isinstance(view, RowsView)

    def __call__(self, x: Tensor, view: RowsView) -> Tensor:
        """Run x `[B, T, D]` → `[B, T, D]`, as `Transformer.run` does."""
        (batch, new, dim), stack = x.shape, self._stack
        cache, positions, lengths = view.next_rows(new)
        x = x.transpose(0, 1).reshape(-1, dim).contiguous()
        if len(x) > self._products.FEW_ROWS:
            x = x.clone()  # products add to it
        for i, module in enumerate(stack.layers):
            block = cast(TransformerBlock, module)
            attention, feed = block.attention, block.feed_forward
            q_norm = None if attention.q_norm is None else attention.q_norm.weight
            k_norm = None if attention.k_norm is None else attention.k_norm.weight
            fused = self._product(x, attention.wqkv, norm=block.attention_norm)
            attended = fused.new_empty(len(fused), attention.heads, stack.config.head_dim)
            for at in range(new):  # a position attends to those before it
                rows = slice(at * batch, (at + 1) * batch)
                self._attention.attend_new(
                    fused[rows], cache[i], positions[at], lengths[at], stack.rope, q_norm, k_norm,
                    stack.config.norm_eps, attended[rows], settled=view.settled,
                )  # fmt: skip
            x = self._product(attended.flatten(1), attention.wo, residual=x)
            gated = self._product(x, cast(nn.Linear, feed.w13), norm=block.ffn_norm, gates=True)
            x = self._product(gated, feed.w2, residual=x)
        return x.view(new, batch, dim).transpose(0, 1)

    def head(self, x: Tensor, weight: Tensor) -> Tensor:
        """Multiply the normed output by rows of a head, as `Transformer.multiply_normed` does."""
        norm, rows = self._stack.norm, x.reshape(-1, x.shape[-1]).contiguous()
        stored = stored_weight(weight)
        if stored is None or len(rows) > self._products.FEW_ROWS:
            return F.linear(norm(x), weight)
        return self._products.gemv(rows, stored, norm=(norm.weight, norm.eps)).view(*x.shape[:-1], -1)

    def _product(
        self,
        x: Tensor,
        layer: nn.Linear,
        *,
        norm: FoldableRMSNorm | None = None,
        residual: Tensor | None = None,
        gates: bool = False,
    ) -> Tensor:
        """Multiply x `[B, D]`, after a norm, with SwiGLU's gate or a residual connection behind it.

        The sum may be in the memory of `residual`.
        """
        products, weight, bias = self._products, layer.weight, cast(Tensor | None, layer.bias)
        stored = stored_weight(weight)
        out: Tensor
        if stored is not None and len(x) <= products.FEW_ROWS:
            given = None if norm is None else (norm.weight, norm.eps)
            out = products.gemv(x, stored, bias, norm=given, residual=residual, gates=gates)
            return out
        if norm is not None:
            x = self._elementwise.rms_norm(x, norm.weight, norm.eps)
        narrow = stored is not None and stored.scale is not None
        if stored is not None and narrow and len(x) <= products.MAX_NARROW_ROWS:
            out = products.narrow_gemm(x, stored, bias, residual)
        elif residual is None:
            out = F.linear(x, weight, bias)
        elif stored is None or narrow or bias is not None:
            out = residual + F.linear(x, weight, bias)
        else:
            out = residual.addmm_(x, weight.t())  # one kernel
        return self._elementwise.gate(out) if gates else out


def stored_weight(weight: Tensor) -> "StoredWeight | None":
    """Return a weight as kernels of our own read it; None if they do not, such as one that is stored by columns."""
    from engine.models.kernels.products import StoredWeight

    parts = (weight,) if type(weight) in (Tensor, nn.Parameter) else narrow_weight(weight)
    return StoredWeight(*parts) if parts and all(part.is_contiguous() for part in parts) else None


def narrow_weight(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the stored values `[E, D]` and the scales `[E, G]` of an 8-bit weight; None for any other."""
    stored, scale = (getattr(weight, name, None) for name in ("qdata", "scale"))  # of torchao's tensors
    if not (isinstance(stored, Tensor) and isinstance(scale, Tensor)) or stored.shape != weight.shape:
        return None
    rows, columns = stored.shape
    if stored.dtype not in (torch.int8, torch.float8_e4m3fn) or scale.numel() % rows:
        return None
    groups = scale.numel() // rows
    size = columns // groups
    if groups > 1 and (columns % groups or size < _LEAST_GROUP or size & (size - 1)):
        return None
    return stored, scale.reshape(rows, groups)


def sampling_kernels() -> SamplingBackend:
    """Return the kernels for noise and draws. Raises ImportError without Triton."""
    from engine.models.kernels import sampling

    return SamplingBackend(sampling.gumbel_noise, sampling.draw)


def use_fused_steps(stack: Transformer) -> str | None:
    """Let a stack run single positions in fused kernels, if these agree with the plain ones.

    Returns: a phrase that says why it does not, or None.
    """
    try:
        fused, weight = FusedStepBackend(stack), stack.norm.weight
        difference = largest(
            *(step_difference(stack, fused, _rows_view, one_layer=True, rows=rows) for rows in _CHECKED_ROWS),
            frame_difference(stack, fused) if isinstance(stack, FastStack) else 0.0,
            head_difference(stack, fused.head),
        )
    except Exception as error:  # compilers and drivers raise many types
        return f"kernels: {first_line(error)}"
    if not difference <= TOLERANCE[weight.dtype]:  # NaN too
        return f"kernels: they differ from the plain ones by {difference:.2g}"
    stack.step_backend, stack.head_backend = fused, fused.head
    return None


def use_fused_sampling(slow: SlowStack, sizes: Sequence[int]) -> str | None:
    """Let a slow stack's rules draw in fused kernels, if these draw the same values as the plain ones.

    sizes: numbers of values to draw from in the check. Returns: as `use_fused_steps`.
    """
    weight = slow.norm.weight
    try:
        fused = sampling_kernels()
        why = describe_sampling_difference(fused, sizes, weight.device, weight.dtype)
    except Exception as error:  # compilers and drivers raise many types
        why = first_line(error)
    if why is None:
        slow.sampling_backend = fused
    return why and f"sampling kernels: {why}"


def _rows_view(cache: KVCache, positions: Sequence[int]) -> StaticRowsView:
    return StaticRowsView(cache, torch.tensor(positions, device=cache.buffer.device), cache.positions)
