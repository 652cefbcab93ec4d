"""The sampling rules of the S2 family.

Source: the sampling of Fish Audio's S2 reference; repetition-aware sampling after VALL-E 2 (arXiv:2406.05370).
"""

import torch
from torch import Tensor

from engine.models.sampling import Draw, FusedSampling, RowOptions, sample, sample_semantic

REPETITION_WINDOW = 10


class RepetitionAwareRules:
    """Redraws a semantic token with freer options if it is among the recent ones.

    drawn: the semantic tokens of the last frames, `[B, REPETITION_WINDOW]`; -1 for the first frame and before it.
    """

    draws, candidates = 2, 32

    def nothing_drawn(self, rows: int, device: torch.device) -> Tensor:
        return torch.full((rows, REPETITION_WINDOW), -1, device=device)

    def semantic(
        self,
        logits: Tensor,
        options: RowOptions,
        drawn: Tensor,
        frame: Tensor,
        noise: Tensor,
        fused: FusedSampling | None = None,
    ) -> Tensor:
        if fused is not None:
            return fused.draw(logits, options, noise, drawn)
        return sample_semantic(logits, options, drawn, noise)

    def residual(self, options: RowOptions, candidates: int, fused: FusedSampling | None = None) -> Draw:
        if fused is not None:
            return lambda logits, noise: fused.draw(logits, options, noise)
        row_filter = options.filter(candidates)
        return lambda logits, noise: sample(logits, row_filter, noise)

    def remember(self, drawn: Tensor, frame: Tensor, semantic: Tensor) -> Tensor:
        # As in the reference, the first frame is not in the window.
        remembered = torch.where(frame > 0, semantic, -1)
        return torch.cat((drawn[:, 1:], remembered[:, None]), dim=1)
