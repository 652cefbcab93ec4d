"""Fused kernels for single positions, nine or ten a layer instead of 28, and for sampling. For GPUs.

`fuse` gives a stack a `FusedRun` after checking it against the plain run on the stack's own weights; `fuse_sampling`
does the same for noise and draws. If they differ, or if Triton is missing or fails, the plain versions stay in use.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.errors import first_line
from engine.models.kv_cache import KVCache, KVView, RowsView, StaticRowsView
from engine.models.layers import Transformer, TransformerBlock
from engine.models.sampling import MAX_TOP_K, FusedSampling, RowOptions, gumbel_noise, sample, sample_semantic
from engine.models.stacks import SlowStack

# Largest relative difference of fused and plain run, from rounding in another order. Wrong kernels differ by about 1.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
_NOISE_TOLERANCE = 1e-3  # error of a fast logarithm
_CHECKED_POSITIONS = (0, 1, 255, 256, 300)  # one split and several, first and last of a split
_CHECKED_CACHE = 512
_MANY_ROWS = 20  # of a narrow product that uses matrix units
_LEAST_GROUP = 16  # columns per scale
_CHECKED_DRAWS = 64


class FusedRun:
    """The blocks of one stack, run for one new position in each row.

    Matrix products between the kernels are cuBLAS's, or `narrow_product` for few rows and 8-bit weights.
    """

    def __init__(self, stack: Transformer) -> None:
        """Raises ImportError without Triton."""
        from engine.models.kernels import attention, elementwise, products

        self._attention, self._elementwise, self._products = attention, elementwise, products
        self._stack = stack

    def accepts(self, view: KVView, new: int) -> bool:
        return new == 1 and isinstance(view, RowsView)

    def __call__(self, x: Tensor, view: RowsView) -> Tensor:
        """Run x `[B, 1, D]` → `[B, 1, D]`, as `Transformer.run` does."""
        stack = self._stack
        cache, positions, lengths = view.next_rows()
        total, added = x[:, 0].contiguous(), None
        for i, module in enumerate(stack.layers):
            block = cast(TransformerBlock, module)
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
        narrow = narrow_weight(layer.weight) if len(x) <= self._products.MAX_ROWS else None
        if narrow is not None:
            return self._products.narrow_product(x, *narrow, layer.bias)
        return F.linear(x, layer.weight, layer.bias)

    def narrow_difference(self, rows: int) -> float:
        """Return the largest relative difference of the first block's narrow products with `rows` rows."""
        layers = [layer for layer in self._stack.layers[0].modules() if isinstance(layer, nn.Linear)]
        differences = [0.0]
        for layer in layers:
            if narrow_weight(layer.weight) is not None:
                chance = torch.Generator(layer.weight.device).manual_seed(0)
                x = torch.randn(rows, layer.in_features, generator=chance, device=layer.weight.device)
                x = x.to(self._stack.norm.weight.dtype)
                differences.append(_difference(F.linear(x, layer.weight, layer.bias), self._product(x, layer)))
        return max(differences)


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


def sampling_kernels() -> FusedSampling:
    """Return the kernels for noise and draws. Raises ImportError without Triton."""
    from engine.models.kernels import sampling

    return FusedSampling(sampling.gumbel_noise, sampling.draw)


def fuse(stack: Transformer) -> str | None:
    """Let a stack run single positions in fused kernels, if these agree with the plain ones.

    Returns: a phrase that says why it does not, or None.
    """
    try:
        fused, weight = FusedRun(stack), stack.norm.weight
        with torch.cuda.device(weight.device) if weight.device.type == "cuda" else nullcontext():
            difference = max(check(stack, fused), fused.narrow_difference(_MANY_ROWS))
    except Exception as error:  # compilers and drivers raise many types
        return f"kernels: {first_line(error)}"
    if not difference <= TOLERANCE[weight.dtype]:  # NaN too
        return f"kernels: they differ from the plain ones by {difference:.2g}"
    stack.fused = fused
    return None


@torch.inference_mode()
def check(stack: Transformer, fused: FusedRun) -> float:
    """Return the relative difference of one step of all layers, fused and plain.

    Rows are at edge positions of a cache with random keys and values, one of them at its end.
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


def fuse_sampling(slow: SlowStack, sizes: Sequence[int]) -> str | None:
    """Let a slow stack's rules draw in fused kernels, if these draw the same values as the plain ones.

    sizes: numbers of values to draw from in the check. Returns: as `fuse`.
    """
    device = slow.norm.weight.device
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            fused = sampling_kernels()
            why = check_sampling(fused, sizes, device)
    except Exception as error:  # compilers and drivers raise many types
        why = first_line(error)
    if why is None:
        slow.fused_sampling = fused
    return why and f"sampling kernels: {why}"


@torch.inference_mode()
def check_sampling(fused: FusedSampling, sizes: Sequence[int], device: torch.device) -> str | None:
    """Compare fused and plain noise and draws, greedy and free, with and without redraws. Returns how they differ."""
    chance = torch.Generator(device).manual_seed(0)
    keys = torch.randint(-(2**63), 2**63 - 1, (_CHECKED_DRAWS,), generator=chance, device=device)
    frames = torch.arange(_CHECKED_DRAWS, device=device)
    noise = gumbel_noise(keys, frames, 2, MAX_TOP_K)
    furthest = float((fused.noise(keys, frames, 2, MAX_TOP_K) - noise).abs().max())
    if not furthest <= _NOISE_TOLERANCE:
        return f"their noise differs by {furthest:.2g}"
    kinds = torch.tensor([[0.7, 0.8, 30], [0.0, 0.9, 30], [1.3, 1.0, 60], [1.0, 0.5, 4]], device=device)
    temperature, top_p, top_k = kinds.repeat(_CHECKED_DRAWS // len(kinds), 1).unsqueeze(2).unbind(1)
    options = RowOptions(temperature, top_p, top_k.long())
    for size in sizes:
        logits = 3 * torch.randn(_CHECKED_DRAWS, size, generator=chance, device=device)
        first = sample(logits, options.filter(MAX_TOP_K), noise[:, 0])
        recent = torch.where(frames % 3 == 0, first, -1)[:, None].repeat(1, 3)
        again = sample_semantic(logits, options, recent, noise)
        found = fused.draw(logits, options, noise[:, 0]), fused.draw(logits, options, noise, recent)
        if not (torch.equal(found[0], first) and torch.equal(found[1], again)):
            return "they draw other values"
    return None


def _difference(expected: Tensor, found: Tensor) -> float:
    wide = expected.float()
    return float((found.float() - wide).norm() / wide.norm())
