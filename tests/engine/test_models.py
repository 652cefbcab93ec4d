"""The two transformers against the golden tensors, and against themselves: cached and not, padded and grown."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.checkpoint import DualAR
from engine.models.kv_cache import KVCache
from engine.models.layers import attend
from tests.engine.conftest import golden

GOLDEN = golden("dual_ar")
PROMPT = GOLDEN["prompt"].long()[None]
STANDS_FOR_END = 5


def relative(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@torch.inference_mode()
def test_prefill_equals_the_reference(miniature: DualAR) -> None:
    normed, vectors = miniature.slow(PROMPT, miniature.slow.new_cache(1, 64))
    logits = miniature.slow.logits(normed)[0]
    start, end = miniature.config.semantic_start_id, miniature.config.semantic_end_id
    assert relative(vectors[0], GOLDEN["prefill_hidden"]) < 1e-4
    assert relative(logits[:, :-1], GOLDEN["prefill_logits"][:, start : end + 1]) < 1e-4
    assert relative(logits[:, -1], GOLDEN["prefill_logits"][:, miniature.tokenizer.end_id]) < 1e-4


@torch.inference_mode()
def test_greedy_frames_equal_the_reference(miniature: DualAR) -> None:
    slow, fast = miniature.slow, miniature.fast
    cache = slow.new_cache(1, 1)  # grows on the way
    normed, vectors = slow(PROMPT, cache)
    for step, frame in enumerate(GOLDEN["greedy_frames"].long()):
        logits = slow.logits(normed[0, -1])[:-1]
        assert int(logits.argmax()) == int(frame[1])
        seen: list[Tensor] = []

        def greedy(values: Tensor, seen: list[Tensor] = seen) -> Tensor:
            seen.append(values[0])
            return values.argmax(-1)

        codes = fast.generate(vectors[:, -1], frame[1:2], greedy)
        assert torch.equal(codes[0], frame[1:])
        assert relative(torch.stack(seen), GOLDEN["fast_logits"][step]) < 1e-4
        normed, vectors = slow(frame[None, :, None], cache)
        if step + 1 < len(GOLDEN["step_hidden"]):
            expected = GOLDEN["step_hidden"]
            assert (
                relative(vectors[0, -1], expected[step + 1]) < 1e-4 or relative(vectors[0, -1], expected[step]) < 1e-4
            )
    assert cache.length == PROMPT.shape[2] + len(GOLDEN["greedy_frames"])


def test_rotary_tables_equal_the_reference(miniature: DualAR) -> None:
    assert torch.equal(miniature.slow.rope[: len(GOLDEN["rope"])].float(), GOLDEN["rope"])
    assert torch.equal(miniature.fast.rope[: len(GOLDEN["fast_rope"])].float(), GOLDEN["fast_rope"])


@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(1, PROMPT.shape[2] - 1), max_size=6, unique=True))
@torch.inference_mode()
def test_prefill_in_pieces_is_prefill(miniature: DualAR, cuts: list[int]) -> None:
    whole, _ = miniature.slow(PROMPT)
    cache = miniature.slow.new_cache(1, 4)
    edges = [0, *sorted(cuts), PROMPT.shape[2]]
    pieces = [miniature.slow(PROMPT[:, :, a:b], cache)[0] for a, b in pairwise(edges)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_teacher_forced_logits_are_those_of_generation(miniature: DualAR) -> None:
    fast = miniature.fast
    vectors = torch.randn(3, miniature.config.slow.dim, generator=torch.Generator().manual_seed(1))
    seen: list[Tensor] = []

    def greedy(values: Tensor) -> Tensor:
        seen.append(values)
        return values.argmax(-1)

    codes = fast.generate(vectors, torch.tensor([1, 2, 3]), greedy, size=64)
    assert codes.shape == (3, miniature.config.num_codebooks)
    assert int(codes[:, 1:].max()) < 64
    torch.testing.assert_close(torch.stack(seen, 1), fast.logits(vectors, codes, 64), rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_codes_matter_only_under_semantic_tokens(miniature: DualAR) -> None:
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


def test_cache_keeps_what_it_holds_when_it_grows_and_forgets_from_a_point() -> None:
    cache = KVCache(1, 1, 1, 2, capacity=2)
    first = torch.randn(1, 1, 2, 2)
    cache.write(0, first, first)
    cache.advance(2)
    cache.reserve(5)
    assert cache.capacity >= 5
    keys, _ = cache.write(0, torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    assert torch.equal(keys[:, :, :2], first)
    cache.truncate(1)
    assert cache.length == 1
    with pytest.raises(ValueError, match="cannot go"):
        cache.truncate(2)
