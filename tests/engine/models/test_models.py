"""Both transformers against golden tensors, and cached, batched and chunked runs against plain ones."""

import copy
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from engine.families.s2.dual_ar import DualAR
from engine.families.s2.sampling import REPETITION_WINDOW
from engine.layers import silu
from engine.models.frame_step import DecodeState, FrameStep
from engine.models.kv_cache import ContiguousView, StaticRowsView, UnpaddedRowsView, attend
from engine.models.transformer import BatchInvariantLinear, FoldableRMSNorm, QueryKeyNorm
from tests.engine.conftest import golden

GOLDEN = golden("dual_ar")
PROMPT = GOLDEN["prompt"].long()[None]


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@torch.inference_mode()
def test_prefill_equals_reference(miniature: DualAR) -> None:
    normed, hidden = miniature.slow(PROMPT, ContiguousView(miniature.slow.new_cache(1, 64)))
    logits = miniature.slow.logits(normed)[0]
    start, end = miniature.config.semantic_start_id, miniature.config.semantic_end_id
    assert relative_error(hidden[0], GOLDEN["prefill_hidden"]) < 1e-4
    assert relative_error(logits[:, :-1], GOLDEN["prefill_logits"][:, start : end + 1]) < 1e-4
    assert relative_error(logits[:, -1], GOLDEN["prefill_logits"][:, miniature.tokenizer.end_id]) < 1e-4


@torch.inference_mode()
def test_greedy_frames_equal_reference(miniature: DualAR) -> None:
    slow, fast = miniature.slow, miniature.fast
    cache = slow.new_cache(1, 64)
    normed, hidden = slow(PROMPT, ContiguousView(cache))
    for step, frame in enumerate(GOLDEN["greedy_frames"].long()):
        logits = slow.logits(normed[0, -1])[:-1]
        assert int(logits.argmax()) == int(frame[1])
        seen: list[Tensor] = []

        def greedy(values: Tensor, codebook: int, seen: list[Tensor] = seen) -> Tensor:
            seen.append(values[0])
            return values.argmax(-1)

        codes = fast.generate(hidden[:, -1], frame[1:2], greedy)
        assert torch.equal(codes[0], frame[1:])
        assert relative_error(torch.stack(seen), GOLDEN["fast_logits"][step]) < 1e-4
        normed, hidden = slow(frame[None, :, None], ContiguousView(cache, PROMPT.shape[2] + step))
        if step + 1 < len(GOLDEN["step_hidden"]):
            expected = GOLDEN["step_hidden"]
            assert (
                relative_error(hidden[0, -1], expected[step + 1]) < 1e-4
                or relative_error(hidden[0, -1], expected[step]) < 1e-4
            )


def test_rotary_tables_equal_reference(miniature: DualAR) -> None:
    assert torch.equal(torch.view_as_real(miniature.slow.rope)[: len(GOLDEN["rope"])], GOLDEN["rope"])
    assert torch.equal(torch.view_as_real(miniature.fast.rope)[: len(GOLDEN["fast_rope"])], GOLDEN["fast_rope"])


@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(1, PROMPT.shape[2] - 1), max_size=6, unique=True))
@torch.inference_mode()
def test_prefill_in_chunks_equals_whole_prefill(miniature: DualAR, cuts: list[int]) -> None:
    whole, _ = miniature.slow(PROMPT)
    cache = miniature.slow.new_cache(1, PROMPT.shape[2])
    edges = [0, *sorted(cuts), PROMPT.shape[2]]
    pieces = [miniature.slow(PROMPT[:, :, a:b], ContiguousView(cache, a))[0] for a, b in pairwise(edges)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_teacher_forced_logits_equal_generation_logits(miniature: DualAR) -> None:
    fast = miniature.fast
    hidden = torch.randn(3, miniature.config.slow.dim, generator=torch.Generator().manual_seed(1))
    seen: list[Tensor] = []

    def greedy(values: Tensor, codebook: int) -> Tensor:
        seen.append(values)
        return values.argmax(-1)

    codes = fast.generate(hidden, torch.tensor([1, 2, 3]), greedy, size=64)
    assert codes.shape == (3, miniature.config.num_codebooks)
    assert int(codes[:, 1:].max()) < 64
    torch.testing.assert_close(torch.stack(seen, 1), fast.logits(hidden, codes, 64), rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_embedding_ignores_codes_of_text_tokens(miniature: DualAR) -> None:
    text = torch.zeros(1, 11, 3, dtype=torch.long)
    text[0, 0] = torch.tensor([10, 11, 12])
    changed = text.clone()
    changed[:, 1:] = 7
    assert torch.equal(miniature.slow.embed(text), miniature.slow.embed(changed))


@pytest.mark.parametrize(("new", "seen"), [(1, 9), (4, 9), (9, 9)])
def test_grouped_attention_equals_expanded_heads(new: int, seen: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, new, 8), torch.randn(2, 2, seen, 8), torch.randn(2, 2, seen, 8)
    wide_k, wide_v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = q @ wide_k.transpose(2, 3) / 8**0.5
    hidden = torch.arange(seen) > torch.arange(seen - new, seen)[:, None]
    expected = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ wide_v
    torch.testing.assert_close(attend(q, k, v), expected, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_batched_step_rows_equal_single_rows(miniature: DualAR) -> None:
    """Three slots at different positions, with an exact and with a static rows view."""
    slow = miniature.slow
    lengths = [3, 17, 9]
    prompts = [torch.cat((PROMPT, PROMPT), dim=2)[:, :, :n] for n in lengths]
    columns = torch.cat([prompt[:, :, :1] for prompt in prompts])
    expected, caches = [], [slow.new_cache(3, 32) for _ in range(3)]
    for slot, prompt in enumerate(prompts):
        for cache in caches:
            slow(prompt, ContiguousView(cache, 0, slot))
        expected.append(slow(columns[slot : slot + 1], ContiguousView(caches[0], lengths[slot], slot))[0])
    positions = torch.tensor(lengths)
    exact = slow(columns, UnpaddedRowsView(caches[1], range(3), lengths))[0]
    static = slow(columns, StaticRowsView(caches[2], positions, span=20))[0]
    torch.testing.assert_close(exact, torch.cat(expected), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(static, torch.cat(expected), rtol=1e-5, atol=1e-5)
    for cache in caches[1:]:
        for slot, length in enumerate(lengths):
            torch.testing.assert_close(
                cache.buffer[:, :, slot, :, : length + 1], caches[0].buffer[:, :, slot, :, : length + 1]
            )


def test_full_cache_raises(miniature: DualAR) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        miniature.slow(PROMPT, ContiguousView(miniature.slow.new_cache(1, 4)))


@pytest.mark.parametrize(("inputs", "outputs"), [(256, 704), (64, 96), (96, 33), (1024, 96)])
def test_batch_invariant_linear_rows_equal_smaller_batches(inputs: int, outputs: int) -> None:
    layer = BatchInvariantLinear(inputs, outputs)
    x = torch.randn(7, 1, inputs)
    with torch.inference_mode():
        whole = layer(x)
        for rows in range(1, 8):
            assert torch.equal(layer(x[:rows]), whole[:rows])
    torch.testing.assert_close(layer(x), whole, rtol=1e-4, atol=1e-5)  # outside inference mode: the plain product


def test_query_key_norm_scales_before_rounding() -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(3, 5, 16, generator=generator).bfloat16()
    weight = torch.rand(16, generator=generator).bfloat16()
    normed = x.float() * (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    for norm, expected in (
        (QueryKeyNorm(16, 1e-6), (normed * weight.float()).bfloat16()),
        (FoldableRMSNorm(16, 1e-6), normed.bfloat16() * weight),
    ):
        norm.bfloat16().weight.data.copy_(weight)
        assert torch.equal(norm(x), expected)
    assert not torch.equal((normed * weight.float()).bfloat16(), normed.bfloat16() * weight)


def test_repetition_window_starts_with_the_second_frame(miniature: DualAR) -> None:
    step = FrameStep(miniature.slow, miniature.fast, 64)
    state = DecodeState.idle(1, miniature.slow, torch.device("cpu"))
    codes = torch.zeros(1, miniature.config.num_codebooks, dtype=torch.long)
    for token in range(7, 7 + REPETITION_WINDOW + 2):
        assert state.drawn.tolist()[0] == [-1, *[-1] * REPETITION_WINDOW, *range(8, token)][-REPETITION_WINDOW:]
        state = step.next_state(state, torch.tensor([token]), codes)


@torch.inference_mode()
def test_prepare_for_decoding_keeps_outputs(miniature: DualAR) -> None:
    slow, fast = copy.deepcopy(miniature.slow), copy.deepcopy(miniature.fast)
    for stack in (slow, fast):
        stack.prepare_for_decoding()
        assert all(layer.weight.t().is_contiguous() for layer in stack.modules() if isinstance(layer, nn.Linear))
    normed, hidden = slow(PROMPT)
    expected, expected_hidden = miniature.slow(PROMPT)
    assert relative_error(normed, expected) < 1e-5
    assert relative_error(hidden, expected_hidden) < 1e-5
    codes = GOLDEN["greedy_frames"].long()[:1, 1:]
    assert (
        relative_error(fast.logits(hidden[:, -1], codes), miniature.fast.logits(expected_hidden[:, -1], codes)) < 1e-5
    )
    block: Any = slow.layers[0]
    before = block.attention.wqkv.weight.clone()
    slow.bfloat16().prepare_for_decoding()  # does nothing in other dtypes
    assert torch.equal(block.attention.wqkv.weight, before.bfloat16())


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("hidden", [1000, 3072, 9728])
def test_silu_rows_are_equal_in_any_batch(threads: int, hidden: int) -> None:
    """PyTorch may split a large batch between threads. The input is laid out as in a feed-forward, w1 before w3."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for rows in (2, 7, 8, 33):
            both = torch.randn(rows, 2 * hidden, generator=torch.Generator().manual_seed(rows))
            batch = silu(both.chunk(2, dim=-1)[0])
            for row in range(rows):
                assert torch.equal(batch[row : row + 1], silu(both[row : row + 1].chunk(2, dim=-1)[0]))
            torch.testing.assert_close(batch, torch.nn.functional.silu(both[:, :hidden]))
    finally:
        torch.set_num_threads(before)
