"""A fused frame launches fewer kernels than a plain one, and no frame moves less than the weights."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton comes with torch on Linux only")

from benchmarks.memory.sizes import frame_bytes, random_dual_ar, s2_pro
from benchmarks.speed.kernels import run, table

# Of each: norm of a sum twice, four products, placing, attention, gate; the Slow AR's attention is joined.
A_LAYER, SLOW, FAST, FAST_PASSES = 9, 36, 4, 8


def test_kernels_of_a_frame() -> None:
    found = run(512)
    before, merged, fused = found["ways"].values()
    assert before["kernels"] > merged["kernels"] > fused["kernels"]
    in_layers = SLOW * (A_LAYER + 1) + FAST * FAST_PASSES * A_LAYER
    assert in_layers < fused["kernels"] < 1000
    assert {name: fused["by_name"][name] for name in ("_add_norm", "_place", "_attend", "_gate", "_join")} == {
        "_add_norm": 2 * (SLOW + FAST * FAST_PASSES),
        "_place": SLOW + FAST * FAST_PASSES,
        "_attend": SLOW + FAST * FAST_PASSES,
        "_gate": SLOW + FAST * FAST_PASSES,
        "_join": SLOW,
    }
    sizes = s2_pro()
    stacks = random_dual_ar(sizes.dual_ar, torch.bfloat16, "meta", seed=0)
    least = frame_bytes(*stacks, sizes.residual_size, 512).total
    assert all(least < way["bytes"] < 1.05 * least for way in found["ways"].values())
    assert f"{fused['kernels']:,}" in table(found).markdown()
