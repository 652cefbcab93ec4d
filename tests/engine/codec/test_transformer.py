"""Windowed attention and rotary angles against a plain quadratic implementation."""

import math

import pytest
import torch
from torch import Tensor

from engine.codec import transformer
from engine.codec.config import WindowedTransformerConfig
from engine.codec.transformer import WindowedAttention, WindowedTransformer, query_blocks, rotary_factors
from engine.layers import rotate


def reference_rotary_table(positions: int, head_dim: int, base: float) -> Tensor:
    """Compute the rotary table as the public reference does: in fp32, rounded to bf16 at the end."""
    frequencies = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(positions).float(), frequencies)
    return torch.stack((angles.cos(), angles.sin()), -1).bfloat16()


def test_rotary_table_equals_reference_bit_by_bit() -> None:
    ours = torch.view_as_real(rotary_factors(torch.zeros(1, dtype=torch.int64), 16_384, 64, 10_000.0))
    assert torch.equal(ours[0, :, 0].bfloat16(), reference_rotary_table(16_384, 64, 10_000.0))


@pytest.mark.parametrize("position", [16_380, 80_000, 10**9])
def test_rotary_table_is_precise_at_large_positions(position: int) -> None:
    ours = torch.view_as_real(rotary_factors(torch.tensor([position]), 8, 16, 10_000.0))[0, :, 0]
    frequencies = 1.0 / 10_000.0 ** (torch.arange(0, 16, 2, dtype=torch.float32) / 16)
    for step in range(8):
        for i, frequency in enumerate(frequencies.double().tolist()):
            angle = math.fmod((position + step) * frequency, 2 * math.pi)
            assert ours[step, i, 0] == pytest.approx(math.cos(angle), abs=2**-8)
            assert ours[step, i, 1] == pytest.approx(math.sin(angle), abs=2**-8)


def test_rotation_applies_to_adjacent_pairs() -> None:
    table = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).view(1, 1, 1, 2, 2)  # a quarter turn, and none
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 1, 4)
    assert rotate(x, torch.view_as_complex(table)).flatten().tolist() == [-2.0, 1.0, 3.0, 4.0]


def test_query_blocks_mask_future_and_distant_past() -> None:
    (block,) = query_blocks(new=4, past=0, window=2, valid=torch.zeros(1, dtype=torch.int64))
    assert block.mask[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_query_blocks_mask_positions_before_start() -> None:
    (block,) = query_blocks(new=1, past=3, window=4, valid=torch.tensor([0, 2, 9]))
    assert block.mask[:, 0, 0].int().tolist() == [[0, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]]


@torch.inference_mode()
def test_blockwise_attention_matches_plain_windowed_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal is longer than a block, and its last block is short."""
    monkeypatch.setattr(transformer, "_BLOCK", 16)
    config = WindowedTransformerConfig(
        n_layer=1,
        n_head=2,
        head_dim=8,
        dim=16,
        intermediate_size=32,
        window_size=5,
        rope_base=100.0,
        norm_eps=1e-5,
    )
    torch.manual_seed(0)
    attention, x = WindowedAttention(config), torch.randn(2, 50, 16)
    rope = rotary_factors(torch.zeros(1, dtype=torch.int64), 50, 8, 100.0)
    blocks = query_blocks(50, 0, 5, torch.zeros(1, dtype=torch.int64))
    assert len(blocks) == 4
    assert max(block.mask.numel() for block in blocks) <= 16 * 20

    q, k, v = (part.view(2, 50, 2, 8) for part in attention.wqkv(x).chunk(3, -1))
    q, k, v = (part.transpose(1, 2) for part in (rotate(q, rope), rotate(k, rope), v))
    scores = q @ k.mT / math.sqrt(8)
    distance = torch.arange(50)[:, None] - torch.arange(50)
    scores[..., (distance < 0) | (distance >= 5)] = -torch.inf
    expected = attention.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(2, 50, 16))
    torch.testing.assert_close(attention(x, rope, blocks, None), expected, rtol=0, atol=1e-6)


@torch.inference_mode()
@pytest.mark.parametrize("window", [1, 2, 300])
def test_transformer_streams_with_any_window_size(window: int) -> None:
    config = WindowedTransformerConfig(
        n_layer=2,
        n_head=2,
        head_dim=8,
        dim=16,
        intermediate_size=32,
        window_size=window,
        rope_base=100.0,
        norm_eps=1e-5,
        final_norm=False,
    )
    torch.manual_seed(0)
    module, x = WindowedTransformer(config), torch.randn(1, 16, 330)
    assert "norm.weight" not in module.state_dict()
    state = module.init_state(1)
    pieces = torch.cat([module(piece, state) for piece in x.split(77, dim=2)], 2)
    torch.testing.assert_close(pieces, module(x), rtol=0, atol=1e-5)
    assert state.position.item() == 330
