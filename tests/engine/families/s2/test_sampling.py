"""The sampling rules of S1-mini, against a plain computation of its reference's."""

import shutil
from pathlib import Path

import torch
from torch import Tensor

from engine.families.s2.dual_ar import DualAR
from engine.families.s2.release import S2Release
from engine.families.s2.sampling import S1_WINDOW, RecentPenaltyRules, RepetitionAwareRules
from engine.models.sampling import RowOptions, gumbel_noise
from tests.paths import MINIATURE
from tests.support.flat_release import flat_release

VALUES, ROWS = 6, 4000
LOGITS = torch.tensor([2.0, 1.5, 1.0, 0.5, -0.5, -1.0])
CPU = torch.device("cpu")


def remembered(rules: RecentPenaltyRules, tokens: list[int]) -> Tensor:
    """Return what the rules remember after frames with these semantic tokens."""
    drawn = rules.nothing_drawn(1, CPU)
    for frame, token in enumerate(tokens):
        drawn = rules.remember(drawn, torch.tensor([frame]), torch.tensor([token]))
    return drawn


def shares(tokens: list[int], temperature: float, top_p: float) -> Tensor:
    """Draw many times after frames with these tokens. Returns the share of each value."""
    rules = RecentPenaltyRules()
    options = RowOptions(
        torch.full((ROWS, 1), temperature), torch.full((ROWS, 1), top_p), torch.full((ROWS, 1), rules.candidates)
    )
    noise = gumbel_noise(torch.ones(ROWS, dtype=torch.long), torch.arange(ROWS), rules.draws, rules.candidates)
    drawn = remembered(rules, tokens).expand(ROWS, -1)
    found = rules.semantic(LOGITS.expand(ROWS, -1), options, drawn, torch.full((ROWS,), len(tokens)), noise)
    return torch.bincount(found, minlength=VALUES) / ROWS


def expected(recent: list[int], temperature: float, top_p: float) -> Tensor:
    logits = LOGITS.clone()
    for token in set(recent):
        logits[token] = logits[token] * 1.1 if logits[token] < 0 else logits[token] / 1.1
    ranked, values = logits.sort(descending=True)
    dropped = ranked.softmax(0).cumsum(0) > top_p
    dropped[0] = False
    return torch.zeros(VALUES).scatter(0, values, (ranked.masked_fill(dropped, -torch.inf) / temperature).softmax(0))


def test_recent_tokens_of_s1_become_less_likely() -> None:
    recent = [0, 0, 3, 5]
    for tokens, options in ((recent, (0.8, 0.8)), (recent, (1.0, 1.0)), ([], (1.0, 1.0))):
        torch.testing.assert_close(shares([1, *tokens], *options), expected(tokens, *options), rtol=0, atol=0.03)
    assert shares([1, *recent], 0.0, 1.0).tolist() == [1, 0, 0, 0, 0, 0]  # 1.82 is still the greatest


def test_window_of_s1_has_sixteen_frames_without_the_first() -> None:
    rules = RecentPenaltyRules()
    assert remembered(rules, [7]).tolist() == [[-1] * S1_WINDOW]
    assert remembered(rules, [7, *range(20)]).tolist() == [list(range(4, 20))]


def test_release_of_s1_has_its_own_rules_and_defaults(tmp_path: Path) -> None:
    for name, data in flat_release().items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "codec.pth").touch()
    shutil.copy(MINIATURE / "codec_config.json", tmp_path)
    release = S2Release(tmp_path)
    profile = release.profile
    assert (profile.temperature, profile.top_p, profile.top_k) == (0.8, 0.8, 256)
    with torch.device("meta"):
        slow, _ = release.architecture.stacks()
    assert isinstance(slow.rules, RecentPenaltyRules)


def test_s2_draws_repeated_tokens_again(miniature: DualAR) -> None:
    assert isinstance(miniature.slow.rules, RepetitionAwareRules)
