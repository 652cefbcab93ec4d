"""Fused kernels for single positions, five to nine a layer instead of 28, and for sampling. For GPUs.

`use_fused_steps` gives a stack a `FusedStepBackend` after checking it against the plain run on the stack's own weights;
`use_fused_sampling` does the same for noise and draws. If they differ, or if Triton is missing or fails, the plain
versions stay in use.
Triton starts kernels on the thread's current GPU, which must be that of the weights.
"""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.errors import first_line
from engine.models.agreement import TOLERANCE, describe_sampling_difference, frame_difference, step_difference
from engine.models.kv_cache import KVCache, KVView, RowsView, StaticRowsView
from engine.models.layers import FoldableRMSNorm, Transformer, TransformerBlock
from engine.models.sampling import SamplingBackend
from engine.models.stacks import FastStack, SlowStack

_LEAST_GROUP = 16  # columns per scale
_REPEATS = 3  # copies of each row in a check, which then has more rows than one kernel multiplies one by one


class FusedStepBackend:
    """The blocks of one stack, run for one new position in each row, or for the two at the beginning of a frame.

    Matrix products between the kernels are cuBLAS's. With 8-bit weights and few rows they are kernels of our own, which
    include the norm before them and the gate behind them.
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
        total, added = x.transpose(0, 1).reshape(-1, dim).contiguous(), None
        for i, module in enumerate(stack.layers):
            block = cast(TransformerBlock, module)
            attention, feed = block.attention, block.feed_forward
            q_norm = None if attention.q_norm is None else attention.q_norm.weight
            k_norm = None if attention.k_norm is None else attention.k_norm.weight
            total, fused = self._normed_product(total, added, block.attention_norm, attention.wqkv)
            attended = fused.new_empty(len(fused), attention.heads, stack.config.head_dim)
            for at in range(new):  # a position attends to those before it
                rows = slice(at * batch, (at + 1) * batch)
                self._attention.attend_new(
                    fused[rows], cache[i], positions[at], lengths[at], stack.rope, q_norm, k_norm,
                    stack.config.norm_eps, attended[rows],
                )  # fmt: skip
            added = self._product(attended.flatten(1), attention.wo)
            total, gated = self._normed_product(total, added, block.ffn_norm, cast(nn.Linear, feed.w13), gates=True)
            added = self._product(gated, feed.w2)
        out = total if added is None else total + added
        return out.view(new, batch, dim).transpose(0, 1)

    def _normed_product(
        self, x: Tensor, added: Tensor | None, norm: FoldableRMSNorm, layer: nn.Linear, *, gates: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return x + added and, of its norm, the layer's product, gated if wanted."""
        narrow = narrow_weight(layer.weight) if len(x) <= self._products.SINGLE_ROWS else None
        if narrow is not None:
            return self._products.normed_product(x, added, norm.weight, norm.eps, *narrow, layer.bias, gates=gates)
        total, normed = self._elementwise.add_norm(x, added, norm.weight, norm.eps)
        product = self._product(normed, layer)
        return total, self._elementwise.gate(product) if gates else product

    def _product(self, x: Tensor, layer: nn.Linear) -> Tensor:
        narrow = narrow_weight(layer.weight) if len(x) <= self._products.MAX_ROWS else None
        if narrow is None:
            return F.linear(x, layer.weight, layer.bias)
        return self._products.narrow_product(x, *narrow, layer.bias)


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


def _is_narrow(stack: Transformer) -> bool:
    """Return whether weights are in 8 bits, for which few and many rows take different kernels."""
    return any(
        isinstance(each, nn.Linear) and narrow_weight(each.weight) is not None for each in stack.layers.modules()
    )


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
        difference = max(
            step_difference(stack, fused, _rows_view, one_layer=True),
            frame_difference(stack, fused) if isinstance(stack, FastStack) else 0.0,
            step_difference(stack, fused, _rows_view, one_layer=True, repeats=_REPEATS) if _is_narrow(stack) else 0.0,
        )
    except Exception as error:  # compilers and drivers raise many types
        return f"kernels: {first_line(error)}"
    if not difference <= TOLERANCE[weight.dtype]:  # NaN too
        return f"kernels: they differ from the plain ones by {difference:.2g}"
    stack.step_backend = fused
    return None


def use_fused_sampling(slow: SlowStack, sizes: Sequence[int]) -> str | None:
    """Let a slow stack's rules draw in fused kernels, if these draw the same values as the plain ones.

    sizes: numbers of values to draw from in the check. Returns: as `use_fused_steps`.
    """
    device = slow.norm.weight.device
    try:
        fused = sampling_kernels()
        why = describe_sampling_difference(fused, sizes, device)
    except Exception as error:  # compilers and drivers raise many types
        why = first_line(error)
    if why is None:
        slow.sampling_backend = fused
    return why and f"sampling kernels: {why}"


def _rows_view(cache: KVCache, positions: Sequence[int]) -> StaticRowsView:
    return StaticRowsView(cache, torch.tensor(positions, device=cache.buffer.device), cache.positions)
