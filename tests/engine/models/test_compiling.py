"""Compiled blocks compute the same as plain ones."""

from functools import partial

import pytest
import torch

from engine.families.s2.dual_ar import load_dual_ar
from engine.models.compiling import compile_blocks
from engine.models.kv_cache import ContiguousView
from tests.paths import MINIATURE


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@torch.inference_mode()
def test_compiled_steps_equal_plain_steps(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, where the engine rejects compilation, `aot_eager` avoids half a minute of C++ compilation."""
    if device == "cpu":
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    plain = load_dual_ar(MINIATURE, dtype=torch.float32, device=device).slow
    compiled = load_dual_ar(MINIATURE, dtype=torch.float32, device=device).slow
    for stack in (plain, compiled):
        stack.layers = stack.layers[:1]  # each block is compiled separately
    compile_blocks(compiled)
    columns = torch.randint(0, 60, (1, plain.dual.num_codebooks + 1, 9), generator=torch.Generator().manual_seed(0))
    caches = [stack.new_cache(1, 16) for stack in (plain, compiled)]
    for start, end in ((0, 6), (6, 7), (7, 8)):
        one, other = (
            stack(columns[:, :, start:end].to(device), ContiguousView(cache, start))[0]
            for stack, cache in zip((plain, compiled), caches, strict=True)
        )
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
