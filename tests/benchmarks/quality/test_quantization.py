"""The quality gate of a precision: its measures and its bounds."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.quality.quantization import BOUNDS, Figures, Speech, Turn, compare, failures, sample
from engine.families.s2.dual_ar import DualAR, load_dual_ar
from engine.models.quantization import QUANTIZED, Precision
from tests.engine.conftest import golden
from tests.paths import MINIATURE

GOOD = Figures(semantic=1.0, residual=1.0, codes=1.0, ends=(0.9, 0.9), words=(0.5, 0.5))


@pytest.fixture(scope="module")
def model() -> DualAR:
    return load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu")


def turns(count: int) -> list[Turn]:
    return [Turn(golden("dual_ar")["prompt"].long(), "text", seed) for seed in range(count)]


def test_model_compared_with_itself_is_equal(model: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.quality.quantization.MOST_FRAMES", 5)
    speech = Speech(model, 64)
    found, generated, own = compare(speech, speech, turns(2))
    assert (found.semantic, found.residual, found.codes) == (1.0, 1.0, 1.0)
    assert found.ends[0] == found.ends[1]
    assert all(torch.equal(a.codes, b.codes) for a, b in zip(generated, own, strict=True))
    assert not torch.equal(generated[0].codes, generated[1].codes)  # another seed
    assert int(generated[0].codes[:, 1:].max()) < 64


def test_different_model_has_lower_agreement(model: DualAR, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.quality.quantization.MOST_FRAMES", 5)
    other = load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu")
    other.fast.output.weight.neg_()
    found, _, _ = compare(Speech(model, 64), Speech(other, 64), turns(2))
    assert found.semantic == 1.0
    assert found.residual < 0.1


def test_greedy_reference_frames_are_predicted(model: DualAR) -> None:
    frames = golden("dual_ar")["greedy_frames"].long()[:, 1:]
    semantic, residual = Speech(model, model.config.fast.vocab_size).predict(turns(1)[0], frames)
    assert torch.equal(residual, frames[:, 1:])
    assert len(semantic) == len(frames) + 1


def test_equal_seeds_give_equal_draws_for_similar_logits() -> None:
    logits = torch.randn(1, 100, generator=torch.Generator().manual_seed(0))
    drawn = [
        [int(sample(values, generator)) for _ in range(20)]
        for values, generator in ((logits + shift, torch.Generator().manual_seed(1)) for shift in (0.0, 1e-4))
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("precision", QUANTIZED)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"codes": 0.5}, "greedy codes"),
        ({"ends": (0.9, 0.8)}, "turns end"),
        ({"ends": (0.8, 0.9)}, "turns end"),
        ({"words": (0.4, 0.6)}, "Word error"),
    ],
)
def test_each_bound_is_enforced(precision: Precision, changes: dict[str, Any], says: str) -> None:
    [failure] = failures(replace(GOOD, **changes), BOUNDS[precision])
    assert says in failure


@pytest.mark.parametrize("precision", QUANTIZED)
def test_good_results_pass(precision: Precision) -> None:
    assert failures(GOOD, BOUNDS[precision]) == []
    assert failures(replace(GOOD, words=(math.nan, math.nan)), BOUNDS[precision]) == []
    assert failures(replace(GOOD, words=(0.6, 0.3)), BOUNDS[precision]) == []
