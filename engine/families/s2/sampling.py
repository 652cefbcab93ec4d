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
    sample,
    sample_semantic,
)

REPETITION_WINDOW = 10
S1_OPTIONS = SamplingOptions(0.8, 0.8, MAX_TOP_K)  # the reference has no top-k


class PlainRules:
    """S1: each token is drawn by the options of the request alone.

    The reference's repetition penalty is left out: of the semantic tokens in its window of 16 frames it reaches only
    the first one, because it indexes another dimension, and on residual codes it has not been tried here.
    """

    draws, candidates = 1, MAX_TOP_K

    def nothing_drawn(self, rows: int, device: torch.device) -> Tensor:
        return torch.zeros(rows, 1, dtype=torch.long, device=device)  # unused

    def semantic(
        self,
        logits: Tensor,
        options: RowOptions,
        drawn: Tensor,
        frame: Tensor,
        noise: Tensor,
        backend: SamplingBackend | None = None,
    ) -> Tensor:
        return self.residual(options, noise.shape[-1], backend)(logits, noise[:, 0])

    def residual(self, options: RowOptions, candidates: int, backend: SamplingBackend | None = None) -> ResidualSampler:
        if backend is not None:
            return lambda logits, noise: backend.draw(logits, options, noise)
        row_filter = options.filter(candidates)
        return lambda logits, noise: sample(logits, row_filter, noise)

    def remember(self, drawn: Tensor, frame: Tensor, semantic: Tensor) -> Tensor:
        return drawn


class RepetitionAwareRules(PlainRules):
    """S2: a semantic token that is among the recent ones is drawn again with freer options.

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
        backend: SamplingBackend | None = None,
    ) -> Tensor:
        if backend is not None:
            return backend.draw(logits, options, noise, drawn)
        return sample_semantic(logits, options, drawn, noise)

    def remember(self, drawn: Tensor, frame: Tensor, semantic: Tensor) -> Tensor:
        # As in the reference, the first frame is not in the window.
        remembered = torch.where(frame > 0, semantic, -1)
        return torch.cat((drawn[:, 1:], remembered[:, None]), dim=1)
