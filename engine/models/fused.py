"""A stack's run of single positions in few kernels: nine or ten a layer instead of 28. For GPUs.

`fuse` gives a stack a `FusedRun` and checks it against the plain run on the stack's own weights; where they differ, or
where Triton is missing or fails, the stack runs as before.
"""

from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.errors import first_line
from engine.models.kv_cache import KVCache, RowsView, StaticRowsView

if TYPE_CHECKING:
    from engine.models.layers import Transformer, TransformerBlock

# Difference of fused and plain run, as a share of the plain run's size: the roundings of a dtype in another order.
# Wrong kernels differ by their whole size.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
_CHECKED_POSITIONS = (0, 1, 255, 256, 300)  # one and several splits, first and last of one
_CHECKED_CACHE = 512


class FusedRun:
    """The blocks of one stack, run for one new position in each row.

    Between kernels stand the products of matrices: cuBLAS's, or `int8_product` for int8 weights of whole-row scales.
    """

    def __init__(self, stack: "Transformer") -> None:
        """Raises ImportError without Triton."""
        from engine.models.kernels import attention, elementwise, products

        self._attention, self._elementwise, self._products = attention, elementwise, products
        self._stack = stack

    def __call__(self, x: Tensor, view: RowsView) -> Tensor:
        """Run x `[B, 1, D]` → `[B, 1, D]`, as `Transformer.run` does."""
        stack = self._stack
        cache, positions, lengths = view.next_rows()
        total, added = x[:, 0].contiguous(), None
        for i, module in enumerate(stack.layers):
            block = cast("TransformerBlock", module)
            attention, feed = block.attention, block.feed_forward
            q_norm = None if attention.q_norm is None else attention.q_norm.weight
            k_norm = None if attention.k_norm is None else attention.k_norm.weight
            total, normed = self._elementwise.add_norm(total, added, block.attention_norm.weight, stack.config.norm_eps)
            fused = self._product(normed, attention.wqkv)
            queries = self._attention.place(
                fused, cache[i], positions, stack.rope, attention.heads, q_norm, k_norm, stack.config.norm_eps
            )
            attended = self._attention.attend_rows(queries, cache[i], lengths)
            added = self._product(attended.flatten(1), attention.wo)
            total, normed = self._elementwise.add_norm(total, added, block.ffn_norm.weight, stack.config.norm_eps)
            added = self._product(self._elementwise.gate(self._gated(normed, feed)), feed.w2)
        return total[:, None] if added is None else (total + added)[:, None]

    def _gated(self, x: Tensor, feed: nn.Module) -> Tensor:
        merged = "w13" in feed._modules
        layers = [feed.w13] if merged else [feed.w1, feed.w3]
        products = [self._product(x, cast(nn.Linear, layer)) for layer in layers]
        return products[0] if merged else torch.cat(products, dim=1)

    def _product(self, x: Tensor, layer: nn.Linear) -> Tensor:
        weight: Tensor = layer.weight
        stored, scale = (getattr(weight, name, None) for name in ("qdata", "scale"))  # of torchao's tensors
        if isinstance(stored, Tensor) and isinstance(scale, Tensor) and len(x) <= self._products.MOST_ROWS:
            whole_rows = stored.dtype == torch.int8 and stored.shape == weight.shape and scale.numel() == len(weight)
            if whole_rows:
                return self._products.int8_product(x, stored, scale.flatten(), layer.bias)
        return F.linear(x, weight, layer.bias)


def fuse(stack: "Transformer") -> str | None:
    """Let a stack run single positions in fused kernels, if these agree with the plain ones.

    Returns: why it does not, in a sentence's part, or None.
    """
    try:
        fused, weight = FusedRun(stack), stack.norm.weight
        with torch.cuda.device(weight.device) if weight.device.type == "cuda" else nullcontext():
            difference = check(stack, fused)
    except Exception as error:  # compilers and drivers raise many types
        return f"kernels: {first_line(error)}"
    if not difference <= TOLERANCE[weight.dtype]:  # NaN too
        return f"kernels: they differ from the plain ones by {difference:.2g}"
    stack.fused = fused
    return None


@torch.inference_mode()
def check(stack: "Transformer", fused: FusedRun) -> float:
    """The difference of one step of all layers, fused and plain, as a share of the plain one's size.

    Rows stand at odd positions of a cache with random keys and values, one of them at its end.
    """
    config, weight = stack.config, stack.norm.weight
    chance = torch.Generator(weight.device).manual_seed(0)
    count = min(_CHECKED_CACHE, config.max_seq_len)
    known = sorted({min(position, count - 1) for position in (*_CHECKED_POSITIONS, count - 1)})
    positions = torch.tensor(known, device=weight.device)
    sizes = (config.n_layer, len(known), config.n_local_heads, config.head_dim, count)
    caches = [KVCache(*sizes, dtype=weight.dtype, device=weight.device) for _ in range(2)]
    caches[0].buffer.normal_(generator=chance)
    caches[1].buffer.copy_(caches[0].buffer)
    x = torch.randn(len(known), 1, config.dim, generator=chance, device=weight.device).to(weight.dtype)
    views = [StaticRowsView(cache, positions, count) for cache in caches]
    plain, other = stack.run_plain(x, views[0]), fused(x, views[1])
    return max(_difference(plain, other), _difference(caches[0].buffer, caches[1].buffer))


def _difference(expected: Tensor, found: Tensor) -> float:
    wide = expected.float()
    return float((found.float() - wide).norm() / wide.norm())
