"""Compare a stack's plain run with faster code for a device, on the model's own weights and at edge positions."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from itertools import cycle, islice, product

import torch
from torch import Tensor

from engine.models.kv_cache import ContiguousView, FrameView, GrowingView, KVCache, KVView
from engine.models.sampling import MAX_TOP_K, RowOptions, SamplingBackend, gumbel_noise, sample, sample_semantic
from engine.models.stacks import FastStack
from engine.models.transformer import HeadBackend, StepBackend, Transformer, linear

# Largest relative difference of a fast and a plain run, from rounding in another order. Wrong code differs by about 1.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
# First and last of a vector and of a split of the attention, and one behind which its programs have two splits.
_POSITIONS = (0, 1, 7, 8, 255, 256, 300, 1100)
_CACHE = _POSITIONS[-1] + 1
_DRAWS, _OUTPUTS = 64, 65
_NOISE_TOLERANCE = 1e-3  # error of a fast logarithm


@torch.inference_mode()
def step_difference(
    stack: Transformer,
    run: StepBackend,
    view: Callable[[KVCache, Sequence[int]], KVView],
    *,
    one_layer: bool = False,
    rows: int | None = None,
) -> float:
    """Return the relative difference of one step of all layers, plain and by `run`.

    Rows are at edge positions of a cache with random keys and values, one of them at its end.

    view: makes a view of these positions, of slot 0, 1, ….
    one_layer: whether all layers share the memory of one, which each fills before it reads: a GPU may have no room for
        more. For a run that addresses the cache by its strides.
    rows: their number; by default there is one for each edge position.
    """
    config, weight = stack.config, stack.norm.weight
    chance = torch.Generator(weight.device).manual_seed(0)
    count = min(_CACHE, config.max_seq_len)
    edges = sorted({min(position, count - 1) for position in (*_POSITIONS, count - 1)}, reverse=True)
    positions = list(islice(cycle(edges), rows or len(edges)))
    held = _random_caches(stack, 1 if one_layer else config.n_layer, len(positions), count)
    x = _random((len(positions), 1, config.dim), weight, chance)
    views = [view(_over_layers(cache, config.n_layer), positions) for cache in held]
    plain, other = stack.run_plain(x, views[0]), run(x, views[1])
    return largest(relative_difference(plain, other), _cache_difference(held, range(len(positions)), positions))


@torch.inference_mode()
def prompt_difference(stack: Transformer, view: Callable[[KVCache, int, Sequence[int]], KVView]) -> float:
    """Return the relative difference of a prompt chunk's output and cache, with a `ContiguousView` and another view.

    view: makes a view of these positions of a slot.
    """
    weight, slot = stack.norm.weight, 1
    positions = range(5, min(29, stack.config.max_seq_len))
    chance = torch.Generator(weight.device).manual_seed(0)
    x = _random((1, len(positions), stack.config.dim), weight, chance)
    held = _random_caches(stack, stack.config.n_layer, slot + 1, positions.stop)
    plain = stack.run_plain(x, ContiguousView(held[0], positions.start, slot))
    other = stack.run_plain(x, view(held[1], slot, positions))
    return largest(relative_difference(plain, other), _cache_difference(held, [slot] * len(positions), positions))


@torch.inference_mode()
def frame_difference(stack: FastStack, run: StepBackend) -> float:
    """Return the relative difference of the passes that begin a frame, of two positions and of one, plain and by
    `run`."""
    weight, rows, sizes = stack.norm.weight, 2, (2, 1)
    chance = torch.Generator(weight.device).manual_seed(0)
    x = _random((rows, sum(sizes), stack.config.dim), weight, chance)
    growing, framed = GrowingView(stack.config.n_layer), FrameView(stack.new_cache(rows, stack.num_codebooks))
    plain = [stack.run_plain(part, growing) for part in x.split(sizes, dim=1)]
    other = [run(part, framed) for part in x.split(sizes, dim=1)]
    return largest(*map(relative_difference, plain, other))


@torch.inference_mode()
def head_difference(stack: Transformer, multiply: HeadBackend) -> float:
    """Return the relative difference of a head's products, plain and by `multiply`."""
    weight = stack.norm.weight
    chance = torch.Generator(weight.device).manual_seed(0)
    x, head = (_random((*size, stack.config.dim), weight, chance) for size in ((2, 1), (_OUTPUTS,)))
    return relative_difference(linear(stack.norm(x), head), multiply(x, head))


def _random(shape: tuple[int, ...], weight: Tensor, chance: torch.Generator) -> Tensor:
    """Return normal values, drawn in fp32 whatever torch's default is, in the dtype and on the device of a weight."""
    return torch.randn(shape, generator=chance, dtype=torch.float32, device=weight.device).to(weight.dtype)


def _random_caches(stack: Transformer, layers: int, slots: int, positions: int) -> tuple[KVCache, KVCache]:
    """Create two caches with the same random keys and values."""
    config, weight = stack.config, stack.norm.weight
    sizes = (layers, slots, config.n_local_heads, config.head_dim, positions)
    one, other = (KVCache(*sizes, dtype=weight.dtype, device=weight.device) for _ in range(2))
    one.buffer.normal_(generator=torch.Generator(weight.device).manual_seed(1))
    other.buffer.copy_(one.buffer)  # drawing takes most of the time
    return one, other


def _over_layers(cache: KVCache, layers: int) -> KVCache:
    """Return a cache of `layers` layers that share the memory of the one layer of `cache`, or `cache` itself."""
    if len(cache.buffer) != layers:
        shared = copy(cache)
        shared.buffer = cache.buffer.expand(layers, -1, -1, -1, -1, -1)
        return shared
    return cache


@torch.inference_mode()
def describe_sampling_difference(
    backend: SamplingBackend, sizes: Sequence[int], device: torch.device, dtype: torch.dtype = torch.float32
) -> str | None:
    """Compare noise and draws with the plain ones: greedy, free, and with redraws. Returns how they differ.

    dtype: of logits, besides fp32. The likeliest are distinct in any, because the order of equal ones is undefined.
    """
    chance = torch.Generator(device).manual_seed(0)
    keys = torch.randint(-(2**63), 2**63 - 1, (_DRAWS,), generator=chance, device=device)
    frames = torch.arange(_DRAWS, device=device)
    noise = gumbel_noise(keys, frames, 2, MAX_TOP_K)
    furthest = float((backend.noise(keys, frames, 2, MAX_TOP_K) - noise).abs().max())
    if not furthest <= _NOISE_TOLERANCE:
        return f"their noise differs by {furthest:.2g}"
    kinds = torch.tensor(
        [[0.7, 0.8, 30], [0.0, 0.9, 30], [1.3, 1.0, 60], [1.0, 0.5, 4]], dtype=torch.float32, device=device
    )
    temperature, top_p, top_k = kinds.repeat(_DRAWS // len(kinds), 1).unsqueeze(2).unbind(1)
    options = RowOptions(temperature, top_p, top_k.long())
    for size, kind in product(sizes, {dtype, torch.float32}):
        ranks = torch.rand(_DRAWS, size, generator=chance, dtype=torch.float32, device=device).argsort(dim=-1)
        logits = ((MAX_TOP_K - ranks).clamp(min=0) / 32).to(kind)
        first = sample(logits, options.filter(MAX_TOP_K), noise[:, 0])
        recent = torch.where(frames % 3 == 0, first, -1)[:, None].repeat(1, 3)
        again = sample_semantic(logits, options, recent, noise)
        found = backend.draw(logits, options, noise[:, 0]), backend.draw(logits, options, noise, recent)
        if not (torch.equal(found[0], first) and torch.equal(found[1], again)):
            return "they draw other values"
    return None


def _cache_difference(caches: Sequence[KVCache], slots: Sequence[int], positions: Sequence[int]) -> float:
    """Return the norm of the difference of the caches of a plain run and another by that of what the plain one wrote.

    slots, positions: where it wrote. The rest is most of a cache, and would hide wrong or missing values.
    """
    plain, other = (cache.buffer for cache in caches)
    written = plain[:, :, list(slots), :, list(positions)].float()
    return float(other.to(torch.float32, copy=True).sub_(plain).norm() / written.norm())


def largest(*differences: float) -> float:
    """Return the largest difference; NaN if any is NaN, which `max` may skip."""
    return math.nan if any(map(math.isnan, differences)) else max(differences)


def relative_difference(expected: Tensor, found: Tensor) -> float:
    """Return the norm of the difference by that of the expected values."""
    wide = expected.float()
    return float(found.to(torch.float32, copy=True).sub_(wide).norm() / wide.norm())
