"""A fused frame launches fewer kernels than a plain one, and reads at least the weights."""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", reason="Triton comes with torch on Linux only")

from benchmarks.memory.sizes import Sizes, frame_bytes, random_dual_ar, s2_pro
from benchmarks.speed import kernels
from benchmarks.speed.kernels import run, table

# Per layer: four products with what is before and behind them, and attend; the Slow AR's attention also has a join.
KERNELS_PER_LAYER, SLOW, FAST, FAST_PASSES = 5, 6, 1, 9
OTHERS = 200  # at most: embeddings, heads and sampling


def shallow() -> Sizes:
    """S2-Pro with few layers."""
    sizes = s2_pro()
    config = sizes.dual_ar
    few = replace(config, slow=replace(config.slow, n_layer=SLOW), fast=replace(config.fast, n_layer=FAST))
    return replace(sizes, dual_ar=few)


def test_kernel_counts_and_bytes_of_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "s2_pro", shallow)
    found = run(512)
    before, merged, blocks, fused, narrow, narrow_fused = found["variants"].values()
    assert before["kernels"] > merged["kernels"] > blocks["kernels"] > fused["kernels"]
    assert narrow["kernels"] > merged["kernels"]  # separate kernels widen the weights
    assert narrow_fused["kernels"] < narrow["kernels"] / 2
    # Attention has a second kernel in the slow stack, and in a frame's first pass, which has two positions.
    in_layers = (SLOW + FAST * FAST_PASSES) * KERNELS_PER_LAYER + SLOW + FAST
    assert in_layers < fused["kernels"] < in_layers + OTHERS
    products = 4 * (SLOW + FAST * FAST_PASSES) + FAST_PASSES  # with the Fast AR's head
    for variant in (fused, narrow_fused):
        assert {name: variant["by_name"][name] for name in ("_gemv_kernel", "_attend", "_join")} == {
            "_gemv_kernel": products,
            "_attend": SLOW + FAST * (FAST_PASSES + 1),
            "_join": SLOW,
        }
        assert not {"_rms_norm", "_gate"} & set(variant["by_name"]), "they are parts of the products"
    assert (fused["by_name"]["_noise"], fused["by_name"]["_draw"]) == (1, FAST_PASSES + 1)
    sizes = shallow()
    stacks = random_dual_ar(sizes.dual_ar, torch.bfloat16, "meta", seed=0)
    least = frame_bytes(*stacks, sizes.residual_size, 512).total
    assert all(least < variant["bytes"] < 1.05 * least for variant in (before, merged, blocks, fused))
    assert narrow_fused["bytes"] < 0.65 * fused["bytes"]
    assert narrow["bytes"] > 2 * fused["bytes"]
    assert f"{fused['kernels']:,}" in table(found).markdown()
