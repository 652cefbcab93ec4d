"""Filtering against the golden probabilities, and drawing against its own statistics."""

from typing import Any

import pytest
import torch

from engine.errors import InvalidOption
from engine.sampling import SamplingOptions, SemanticSampler, filtered_probabilities, sample
from tests.engine.conftest import cases, golden

GOLDEN = golden("sampling")
CASES = list(enumerate(cases("sampling")))


@pytest.mark.parametrize(("index", "case"), CASES)
def test_probabilities_equal_the_reference(index: int, case: dict[str, Any]) -> None:
    ours = filtered_probabilities(GOLDEN[f"logits_{index}"], SamplingOptions(**case))
    torch.testing.assert_close(ours, GOLDEN[f"probs_{index}"], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("index", "case"), CASES)
def test_draws_follow_the_probabilities(index: int, case: dict[str, Any]) -> None:
    logits = GOLDEN[f"logits_{index}"]
    draws = sample(logits.expand(20_000, -1), SamplingOptions(**case), torch.Generator().manual_seed(0))
    counted = torch.bincount(draws, minlength=len(logits)) / 20_000
    assert float((counted - GOLDEN[f"probs_{index}"]).abs().max()) < 0.015
    assert not counted[GOLDEN[f"probs_{index}"] == 0].any()


def test_a_seed_repeats_its_draws_and_another_does_not() -> None:
    logits = torch.randn(500, 40, generator=torch.Generator().manual_seed(3))
    options = SamplingOptions(temperature=1.0, top_p=0.95)
    first, again, other = (sample(logits, options, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_temperature_zero_is_greedy() -> None:
    logits = torch.randn(9, 30)
    assert torch.equal(sample(logits, SamplingOptions(temperature=0), None), logits.argmax(-1))


def test_a_repeated_token_is_drawn_anew_more_freely() -> None:
    # The strict draw (top-p 0.5) always gives 0; the freer second one (0.9) 0 or 1, never 2.
    logits = torch.tensor([1.0, 0.9, -0.3])
    sampler = SemanticSampler(SamplingOptions(temperature=0.7, top_p=0.5), torch.Generator().manual_seed(0))
    drawn = [sampler(logits) for _ in range(60)]
    assert drawn[0] == 0
    assert 1 in drawn
    assert 2 not in drawn


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_p": 0}, {"top_p": 1.5}, {"top_k": 0}])
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidOption, match="choose"):
        SamplingOptions(**wrong)  # type: ignore[arg-type]
