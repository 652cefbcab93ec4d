"""The sampling rules of the S2 family.

Source: the sampling of Fish Audio's references of S2 and S1; repetition-aware sampling after VALL-E 2
(arXiv:2406.05370).
"""

import torch
from torch import Tensor

from engine.models.sampling import (
    MAX_TOP_K,
    ResidualSampler,
    RowOptions,
    SamplingBackend,
    SamplingOptions,
    penalised,
    sample,
    sample_semantic,
)

REPETITION_WINDOW = 10
S1_WINDOW, S1_PENALTY = 16, 1.1
S1_OPTIONS = SamplingOptions(0.8, 0.8, MAX_TOP_K)  # the reference has no top-k


class RecentTokensRules:
    """Rules that treat recent semantic tokens differently.

    drawn: the semantic tokens of the last frames, `[B, window]`; -1 for the first frame and before it.
    """

    window: int

    def nothing_drawn(self, rows: int, device: torch.device) -> Tensor:
        return torch.full((rows, self.window), -1, device=device)

    def residual(self, options: RowOptions, candidates: int, backend: SamplingBackend | None = None) -> ResidualSampler:
        if backend is not None:
            return lambda logits, noise: backend.draw(logits, options, noise)
        row_filter = options.filter(candidates)
        return lambda logits, noise: sample(logits, row_filter, noise)

    def remember(self, drawn: Tensor, frame: Tensor, semantic: Tensor) -> Tensor:
        # As in the references, the first frame is not in the window.
        remembered = torch.where(frame > 0, semantic, -1)
        return torch.cat((drawn[:, 1:], remembered[:, None]), dim=1)


class RepetitionAwareRules(RecentTokensRules):
    """S2: a semantic token that is among the recent ones is drawn again with freer options."""

    window, draws, candidates = REPETITION_WINDOW, 2, 32

    def semantic(
        self,
        logits: Tensor,
        options: RowOptions,
        drawn: Tensor,
        frame: Tensor,
        noise: Tensor,
        backend: SamplingBackend | None = None,
    ) -> Tensor:
        if backend is not None:
            return backend.draw(logits, options, noise, drawn)
        return sample_semantic(logits, options, drawn, noise)


class RecentPenaltyRules(RecentTokensRules):
    """S1: recent semantic tokens become less likely. The reference treats residual codes like this, too."""

    window, draws, candidates = S1_WINDOW, 1, MAX_TOP_K

    def semantic(
        self,
        logits: Tensor,
        options: RowOptions,
        drawn: Tensor,
        frame: Tensor,
        noise: Tensor,
        backend: SamplingBackend | None = None,
    ) -> Tensor:
        count = logits.shape[-1]
        recent = logits.new_zeros(len(logits), count + 1, dtype=torch.bool)  # the last column stands for -1
        recent = recent.scatter(1, torch.where(drawn < 0, count, drawn), True)[:, :count]
        logits = penalised(logits, recent, S1_PENALTY)
        return self.residual(options, noise.shape[-1], backend)(logits, noise[:, 0])
