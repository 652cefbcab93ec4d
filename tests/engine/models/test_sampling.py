"""Sampling: filtered probabilities against golden ones, draws and noise against their distributions."""

from dataclasses import astuple, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.errors import InvalidOption
from engine.families.s2.sampling import REPETITION_WINDOW
from engine.models.sampling import (
    MAX_TOP_K,
    Ranked,
    RowFilter,
    RowOptions,
    SamplingOptions,
    gumbel_noise,
    sample,
    sample_semantic,
    uniform,
)
from tests.engine.conftest import cases, golden

GOLDEN = golden("sampling")
CASES = list(enumerate(cases("sampling")))


def rows(*options: SamplingOptions) -> RowOptions:
    def column(name: str) -> Tensor:
        return torch.tensor([[getattr(each, name)] for each in options])

    return RowOptions(column("temperature").float(), column("top_p").float(), column("top_k"))


def filters(*options: SamplingOptions, candidates: int = MAX_TOP_K) -> RowFilter:
    return rows(*options).filter(candidates)


@cache
def noise(count: int, key: int = 1, candidates: int = MAX_TOP_K) -> Tensor:
    """Return noise `[count, candidates]` of consecutive frames of one request."""
    return gumbel_noise(torch.full((count,), key), torch.arange(count), 1, candidates)[:, 0]


@pytest.mark.parametrize(("index", "case"), CASES)
def test_filtered_probabilities_equal_reference(index: int, case: dict[str, Any]) -> None:
    expected = GOLDEN[f"probs_{index}"]
    logits = GOLDEN[f"logits_{index}"][None]
    ranked = Ranked.of(logits, case["top_k"])
    row_filter = rows(SamplingOptions(**case)).filter(case["top_k"])
    probabilities = (ranked.filtered(row_filter) * row_filter.inverse_temperature).softmax(-1)
    ours = torch.zeros_like(logits).scatter(1, ranked.values, probabilities)
    torch.testing.assert_close(ours[0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("top_p", "kept"), [(0.5, 1), (0.75, 2), (1.0, 4)])
def test_value_with_mass_of_exactly_top_p_is_kept(top_p: float, kept: int) -> None:
    ranked = Ranked.of(torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log(), 4)
    ranked = replace(ranked, mass=torch.tensor([[0.5, 0.75, 0.875, 1.0]]))
    assert int(ranked.filtered(rows(SamplingOptions(1, top_p)).filter(4)).isfinite().sum()) == kept


@pytest.mark.parametrize(("index", "case"), CASES)
def test_draws_follow_reference_probabilities(index: int, case: dict[str, Any]) -> None:
    logits = GOLDEN[f"logits_{index}"]
    draws = sample(logits.expand(20_000, -1), filters(SamplingOptions(**case)), noise(20_000))
    counted = torch.bincount(draws, minlength=len(logits)) / 20_000
    assert float((counted - GOLDEN[f"probs_{index}"]).abs().max()) < 0.015
    assert not counted[GOLDEN[f"probs_{index}"] == 0].any()


def test_rows_use_their_own_options_independent_of_the_batch() -> None:
    logits = torch.randn(4, 300, generator=torch.Generator().manual_seed(3))
    kinds = [SamplingOptions(0), SamplingOptions(0.7, 0.8, 30), SamplingOptions(1.5, 1, 200), SamplingOptions(1, 0.5)]
    drawn = sample(logits, filters(*kinds), noise(4))
    for i, kind in enumerate(kinds):
        single = sample(logits[i : i + 1], filters(kind, candidates=kind.top_k), noise(4)[i : i + 1, : kind.top_k])
        assert int(single) == int(drawn[i])
    assert int(drawn[0]) == int(logits[0].argmax())


def test_noise_depends_only_on_key_frame_draw_and_rank() -> None:
    keys, frames = torch.tensor([5, -7, 5]), torch.tensor([0, 3, 9])
    whole = gumbel_noise(keys, frames, 11, 40)
    assert torch.equal(gumbel_noise(keys[1:2], frames[1:2], 11, 7)[0], whole[1, :, :7])
    assert len(whole.unique()) > 0.99 * whole.numel()


@pytest.mark.parametrize("bits", [0, -1, 2**63 - 1, -(2**63), (1 << 41) - 1, -(1 << 41)])
def test_noise_is_never_infinite(bits: int) -> None:
    drawn = uniform(torch.tensor([bits]))
    assert 0 < float(drawn) < 1
    assert -4 < float(drawn.log().neg().log().neg()) < 20


def test_extreme_noise_never_draws_a_filtered_token() -> None:
    ranked = Ranked.of(torch.tensor([[9.0, 1.0, 0.0]]), 3)
    extremes = uniform(torch.tensor([[0, -1, -1]])).log().neg().log().neg()  # smallest noise for the best token
    assert int(ranked.draw(filters(SamplingOptions(1, 0.5), candidates=3), extremes)) == 0


@pytest.mark.parametrize("best", [0.0, 1e-3, 40.0])
def test_noise_does_not_change_greedy_draws(best: float) -> None:
    logits = torch.tensor([[best - 1e-6, best, best, -torch.inf]])
    against = torch.tensor([[-4.0, 17.0, 17.0, 17.0]])
    assert int(sample(logits, filters(SamplingOptions(0), candidates=4), against)) == int(logits.topk(1).indices)


def test_noise_is_gumbel_distributed_and_uncorrelated() -> None:
    drawn = (-gumbel_noise(torch.arange(64), torch.arange(64), 11, 100).double()).exp()  # Exp(1)
    assert abs(float(drawn.mean()) - 1) < 0.02
    assert abs(float(drawn.var()) - 1) < 0.05
    assert float(drawn.min()) > 0
    quantiles = drawn.flatten()[torch.randperm(drawn.numel())[:50_000]].quantile(
        torch.tensor([0.25, 0.5, 0.9]).double()
    )
    torch.testing.assert_close(quantiles, -(1 - torch.tensor([0.25, 0.5, 0.9])).double().log(), rtol=0.05, atol=0)
    for neighbours in (drawn[:-1] * drawn[1:], drawn[:, :-1] * drawn[:, 1:], drawn[..., :-1] * drawn[..., 1:]):
        assert abs(float(neighbours.mean()) - 1) < 0.03


def test_repeated_token_is_redrawn_with_looser_options() -> None:
    # The strict draw (top-p 0.5) always gives 0; the looser redraw (0.9) gives 0 or 1, never 2.
    logits = torch.tensor([[1.0, 0.9, -0.3]]).expand(60, -1)
    strict = rows(*[SamplingOptions(0.7, 0.5)] * 60)
    two = gumbel_noise(torch.full((60,), 3), torch.arange(60), 2, 3)
    fresh = torch.full((60, REPETITION_WINDOW), -1)
    assert set(sample_semantic(logits, strict, fresh, two).tolist()) == {0}
    for place in range(REPETITION_WINDOW):
        seen = fresh.clone()
        seen[:, place] = 0
        assert set(sample_semantic(logits, strict, seen, two).tolist()) == {0, 1}
    greedy = rows(*[SamplingOptions(0)] * 60)
    assert set(sample_semantic(logits, greedy, seen, two).tolist()) == {0}


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_p": 0}, {"top_p": 1.5}, {"top_k": 0}, {"top_k": 257}])
def test_options_out_of_range_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidOption, match="choose"):
        SamplingOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": "0.5"}, {"temperature": None}, {"top_p": [1]}, {"top_p": np.nan}, {"top_k": 1.5}, {"top_k": "3"}],
)
def test_options_that_are_no_numbers_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="choose"):
        SamplingOptions(**wrong)


def test_numbers_of_other_libraries_become_those_of_python() -> None:
    options = SamplingOptions(np.float32(0.5), torch.tensor(0.25), np.int64(3))  # type: ignore[arg-type]
    assert options == SamplingOptions(0.5, 0.25, 3)
    assert [type(each) for each in astuple(options)] == [float, float, int]
