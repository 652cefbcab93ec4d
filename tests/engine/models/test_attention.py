"""Attention with the kernels of GPUs, whose shapes and strides come from the meta device."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.kv_cache import attend

ATEN = torch.ops.aten

KERNELS: dict[str, Callable[..., Any]] = {
    "flash": lambda q, k, v, mask: ATEN._scaled_dot_product_flash_attention(q, k, v),
    "memory-efficient": lambda q, k, v, mask: ATEN._scaled_dot_product_efficient_attention(q, k, v, mask, False),
    "cuDNN": lambda q, k, v, mask: ATEN._scaled_dot_product_cudnn_attention(q, k, v, mask, False),
}


def meta(*shape: int) -> Tensor:
    return torch.empty(shape, device="meta", dtype=torch.bfloat16)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("batch", "heads", "groups"), [(1, 32, 8), (5, 32, 8), (4, 8, 8)])
def test_decode_step_accepts_output_strides_of_any_kernel(
    kernel: str, batch: int, heads: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory-efficient attention, used with a mask on Ampere and Ada, returns heads after positions."""

    def on_gpu(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = KERNELS[kernel](q, k, v, mask.expand(*q.shape[:3], k.shape[2]))[0]
        return out

    monkeypatch.setattr(F, "scaled_dot_product_attention", on_gpu)
    cache = meta(2, batch, groups, 512, 128)[:, :, :, :256]  # a span of longer slots
    keys, values = cache.unbind(0)
    out = attend(meta(batch, heads, 1, 128), keys, values, meta(batch, 1, 1, 256))
    assert out.shape == (batch, heads, 1, 128)
    assert out.transpose(1, 2).flatten(2).shape == (batch, 1, heads * 128)


def test_prefill_on_gpu_uses_causal_bias_without_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flash attention does not accept a mask."""
    given: list[Any] = []

    def record_mask(q: Tensor, k: Tensor, v: Tensor, attn_mask: Any, enable_gqa: bool) -> Tensor:
        given.append(attn_mask)
        return torch.empty_like(q)

    monkeypatch.setattr(F, "scaled_dot_product_attention", record_mask)
    attend(meta(1, 32, 64, 128), meta(1, 8, 192, 128), meta(1, 8, 192, 128))
    expected = torch.arange(192) <= torch.arange(128, 192)[:, None]
    assert not isinstance(given[0], Tensor) or type(given[0]) is not Tensor
    assert torch.equal(given[0]._materialize(torch.device("cpu")), expected)


def test_causal_bias_equals_the_mask_of_the_cpu() -> None:
    chance = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, 16, generator=chance) for heads, length in ((4, 5), (2, 9), (2, 9)))
    from torch.nn.attention.bias import causal_lower_right

    on_gpu = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(5, 9), enable_gqa=True)
    torch.testing.assert_close(attend(q, k, v), on_gpu)
