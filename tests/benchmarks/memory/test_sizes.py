"""Model sizes against the releases, and bytes per frame against sums computed by hand."""

from functools import lru_cache

import pytest
import torch
from torch import nn

from benchmarks.memory.sizes import Sizes, bundled, frame_bytes, half_billion, random_dual_ar, s2_pro
from engine.families.s2.dual_ar import load_dual_ar
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.slow_ar import SlowAR
from engine.models.kv_cache import ContiguousView
from engine.release.hub import BUNDLED


@lru_cache
def meta_stacks(sizes: Sizes) -> tuple[SlowAR, FastAR]:
    return random_dual_ar(sizes.dual_ar, torch.bfloat16, "meta", seed=0)


def parameters(*modules: nn.Module) -> int:
    return sum(weight.numel() for module in modules for weight in module.parameters())


def test_s2_pro_has_published_parameter_counts() -> None:
    slow, fast = meta_stacks(s2_pro())
    assert parameters(slow.layers) == pytest.approx(3.633e9, rel=1e-3)
    assert parameters(slow.embeddings) == pytest.approx(0.399e9, rel=1e-3)
    assert parameters(slow.codebook_embeddings) == pytest.approx(0.105e9, rel=2e-3)
    assert parameters(fast) == pytest.approx(0.425e9, rel=2e-3)
    assert parameters(slow, fast) == pytest.approx(4.56e9, rel=1e-3)


def test_half_billion_model_has_half_a_billion_parameters() -> None:
    slow, fast = meta_stacks(half_billion())
    assert parameters(slow.layers, fast.layers) == pytest.approx(0.5e9, rel=0.02)
    assert (slow.config.dim, slow.config.n_layer, fast.config.n_layer) == (1024, 28, 4)


def test_frame_bytes_of_s2_pro_match_hand_computed_sums() -> None:
    sizes = s2_pro()
    slow, fast = meta_stacks(sizes)
    least = frame_bytes(slow, fast, sizes.residual_size, seen=0)
    assert least.slow == pytest.approx(7.27e9, rel=1e-3)
    assert least.semantic_head == 4097 * 2560 * 2
    assert least.fast == pytest.approx(9 * 0.807e9, rel=1e-3)
    assert least.residual_heads == 9 * 1024 * 2560 * 2
    assert least.embeddings == (1 + 10 + 9) * 2560 * 2  # the token, its codes, and all codes but the last
    assert least.total == pytest.approx(14.6e9, rel=0.01)


def test_frame_bytes_grow_by_keys_and_values_of_positions() -> None:
    sizes = s2_pro()
    none, thousand = (frame_bytes(*meta_stacks(sizes), sizes.residual_size, seen) for seen in (0, 1000))
    assert thousand.kv == pytest.approx(147e6, rel=5e-3)
    assert thousand.total - none.total == thousand.kv


def test_bundled_sizes_equal_those_of_its_weights() -> None:
    sizes = bundled()
    model = load_dual_ar(BUNDLED, dtype=torch.float32, device="cpu")
    drawn = random_dual_ar(sizes.dual_ar, torch.float32, "meta", seed=0)
    found = [{name: weight.shape for name, weight in module.named_parameters()} for module in drawn]
    expected = [
        {name: weight.shape for name, weight in module.named_parameters()} for module in (model.slow, model.fast)
    ]
    assert found == expected
    assert frame_bytes(*drawn, sizes.residual_size, 10) == frame_bytes(model.slow, model.fast, sizes.residual_size, 10)


@torch.inference_mode()
def test_random_weights_are_seeded_and_run() -> None:
    config = bundled().dual_ar
    (slow, fast), (again, _), (other, _) = (random_dual_ar(config, torch.float32, "cpu", seed) for seed in (1, 1, 2))
    assert torch.equal(slow.embeddings.weight, again.embeddings.weight)
    assert not torch.equal(slow.embeddings.weight, other.embeddings.weight)
    assert float(slow.embeddings.weight.std()) == pytest.approx(0.02, rel=0.05)
    assert bool((slow.norm.weight == 1).all())
    columns = torch.randint(70, (1, config.num_codebooks + 1, 5), generator=torch.Generator().manual_seed(0))
    normed, hidden = slow(columns, ContiguousView(slow.new_cache(1, 8)))
    codes = fast.generate(hidden[:, -1], torch.tensor([3]), lambda logits, _codebook: logits.argmax(-1), 512)
    assert bool(slow.logits(normed).isfinite().all())
    assert codes.shape == (1, config.num_codebooks)


def test_rotary_tables_are_computed_not_random() -> None:
    sizes = bundled()
    drawn, _ = random_dual_ar(sizes.dual_ar, torch.bfloat16, "cpu", seed=0)
    model = load_dual_ar(BUNDLED, dtype=torch.bfloat16, device="cpu")
    assert torch.equal(drawn.rope, model.slow.rope)
