"""The sampling rules of S1-mini, against a plain computation of its reference's."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.families.s2.dual_ar import DualAR
from engine.families.s2.release import S2Release
from engine.families.s2.sampling import RepetitionAwareRules
from engine.models.sampling import RowOptions, SamplingRules, gumbel_noise
from tests.paths import MINIATURE
from tests.support.flat_release import flat_release

VALUES, ROWS = 6, 4000
LOGITS = torch.tensor([2.0, 1.5, 1.0, 0.5, -0.5, -1.0])


@pytest.fixture
def s1(tmp_path: Path) -> S2Release:
    for name, data in flat_release().items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "codec.pth").touch()
    shutil.copy(MINIATURE / "codec_config.json", tmp_path)
    return S2Release(tmp_path)


def rules_of(release: S2Release) -> SamplingRules:
    with torch.device("meta"):
        slow, _ = release.architecture.stacks()
    return slow.rules


def shares(rules: SamplingRules, tokens: list[int], temperature: float, top_p: float) -> Tensor:
    """Draw many times after frames with these tokens. Returns the share of each value."""
    options = RowOptions(
        torch.full((ROWS, 1), temperature), torch.full((ROWS, 1), top_p), torch.full((ROWS, 1), rules.candidates)
    )
    noise = gumbel_noise(torch.ones(ROWS, dtype=torch.long), torch.arange(ROWS), rules.draws, rules.candidates)
    drawn = rules.nothing_drawn(1, torch.device("cpu"))
    for frame, token in enumerate(tokens):
        drawn = rules.remember(drawn, torch.tensor([frame]), torch.tensor([token]))
    frames = torch.full((ROWS,), len(tokens))
    found = rules.semantic(LOGITS.expand(ROWS, -1), options, drawn.expand(ROWS, -1), frames, noise)
    return torch.bincount(found, minlength=VALUES) / ROWS


def expected(temperature: float, top_p: float) -> Tensor:
    ranked, values = LOGITS.sort(descending=True)
    dropped = ranked.softmax(0).cumsum(0) > top_p
    dropped[0] = False
    return torch.zeros(VALUES).scatter(0, values, (ranked.masked_fill(dropped, -torch.inf) / temperature).softmax(0))


@pytest.mark.parametrize("tokens", [[], [1, 0, 0, 0, 0]])
def test_tokens_of_s1_are_drawn_by_the_options_whichever_came_before(s1: S2Release, tokens: list[int]) -> None:
    for temperature, top_p in ((0.8, 0.8), (1.0, 1.0)):
        found = shares(rules_of(s1), tokens, temperature, top_p)
        torch.testing.assert_close(found, expected(temperature, top_p), rtol=0, atol=0.03)
    assert shares(rules_of(s1), tokens, 0.0, 1.0).tolist() == [1, 0, 0, 0, 0, 0]


def test_release_of_s1_has_its_own_rules_and_defaults(s1: S2Release) -> None:
    profile = s1.profile
    assert (profile.temperature, profile.top_p, profile.top_k) == (0.8, 0.8, 256)
    assert not isinstance(rules_of(s1), RepetitionAwareRules)


def test_s2_draws_repeated_tokens_again(miniature: DualAR) -> None:
    assert isinstance(miniature.slow.rules, RepetitionAwareRules)
