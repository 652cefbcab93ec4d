"""Sampling rules of Qwen3-TTS: a release may set separate options for the code predictor."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.families.qwen3_tts.config import GenerationDefaults, read_generation
from engine.families.qwen3_tts.sampling import RepetitionPenaltyRules
from engine.models.sampling import RowOptions, SamplingOptions

NUCLEUS = SamplingOptions(0.9, 1.0, 50)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, GenerationDefaults(NUCLEUS, None, 1.05)),
        ({"temperature": 0.6, "subtalker_temperature": 0.6}, GenerationDefaults(SamplingOptions(0.6, 1.0, 50))),
        ({"subtalker_top_k": 20}, GenerationDefaults(NUCLEUS, SamplingOptions(0.9, 1.0, 20))),
        ({"subtalker_dosample": False}, GenerationDefaults(NUCLEUS, SamplingOptions(0, 1.0, 50))),
        (
            {"do_sample": False, "repetition_penalty": 1.2},
            GenerationDefaults(SamplingOptions(0, 1.0, 50), NUCLEUS, 1.2),
        ),
    ],
)
def test_generation_defaults_of_a_release_are_read(
    tmp_path: Path, settings: dict[str, Any], expected: GenerationDefaults
) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    assert read_generation(tmp_path) == expected


def draw(rules: RepetitionPenaltyRules, temperature: float) -> Tensor:
    """Draw a thousand rows of one distribution with independent noise."""
    rows = 1000
    logits = torch.tensor([1.0, 2.0, 1.5, -1.0]).expand(rows, 4)
    generator = torch.Generator().manual_seed(0)
    noise = -torch.empty(rows, 4).exponential_(generator=generator).log()
    options = RowOptions(
        torch.full((rows, 1), temperature), torch.full((rows, 1), 1.0), torch.full((rows, 1), 50, dtype=torch.int64)
    )
    return rules.residual(options, 4)(logits, noise)


@pytest.mark.parametrize(
    ("predictor", "temperature", "values"),
    [
        (None, 1.0, {0, 1, 2, 3}),
        (SamplingOptions(1.0, 1.0, 2), 1.0, {1, 2}),
        (SamplingOptions(0, 1.0, 50), 1.0, {1}),
        (SamplingOptions(1.0, 1.0, 50), 0.0, {1}),
    ],
)
def test_residual_codes_use_the_predictor_options(
    predictor: SamplingOptions | None, temperature: float, values: set[int]
) -> None:
    assert set(draw(RepetitionPenaltyRules(64, 1.05, predictor), temperature).tolist()) == values
