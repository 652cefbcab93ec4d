"""The sampling rules of Qwen3-TTS.

Source: `generate` of transformers as called by the package qwen-tts 0.1.1: a penalty on all tokens drawn before, no end
token in the first two frames, then temperature, top-k and top-p in this order.
"""

import torch
from torch import Tensor

from engine.models.sampling import ResidualSampler, RowOptions, SamplingBackend, SamplingOptions, penalised

_EARLIEST_END = 2  # frames


class RepetitionPenaltyRules:
    """Repetition penalty: tokens that were drawn before become less likely (Keskar et al. 2019).

    predictor: options for residual codes, unless the request is greedy; None to use the options of the request.
    drawn: `[B, S + 1]`, 1 for each semantic token, or the end token, that has been drawn.
    """

    draws, candidates = 1, 64

    def __init__(self, semantic_codebook_size: int, penalty: float, predictor: SamplingOptions | None = None) -> None:
        self._size, self._penalty, self._predictor = semantic_codebook_size, penalty, predictor

    def nothing_drawn(self, rows: int, device: torch.device) -> Tensor:
        return torch.zeros(rows, self._size + 1, dtype=torch.long, device=device)

    def semantic(
        self,
        logits: Tensor,
        options: RowOptions,
        drawn: Tensor,
        frame: Tensor,
        noise: Tensor,
        backend: SamplingBackend | None = None,
    ) -> Tensor:
        logits = penalised(logits, drawn > 0, self._penalty)
        is_end = torch.arange(logits.shape[-1], device=logits.device) == self._size
        logits = logits.masked_fill(is_end & (frame < _EARLIEST_END)[:, None], -torch.inf)
        return draw(logits, options, noise[:, 0])

    def residual(self, options: RowOptions, candidates: int, backend: SamplingBackend | None = None) -> ResidualSampler:
        own = options if self._predictor is None else options.replaced(self._predictor)
        return lambda logits, noise: draw(logits.float(), own, noise)

    def remember(self, drawn: Tensor, frame: Tensor, semantic: Tensor) -> Tensor:
        return drawn.scatter(1, semantic[:, None], 1)


def draw(logits: Tensor, options: RowOptions, noise: Tensor) -> Tensor:
    """Draw from logits `[B, V]` → values `[B]` by the Gumbel trick. noise: `[B, C]`, C at least the greatest top_k."""
    count = min(noise.shape[-1], logits.shape[-1])
    greedy = options.temperature == 0
    scores, values = (logits / options.temperature.masked_fill(greedy, 1.0)).topk(count, dim=-1)
    rank = torch.arange(count, device=logits.device)
    scores = scores.masked_fill(rank >= options.top_k, -torch.inf)
    mass = scores.softmax(-1)
    # Keep the likeliest value, and each further one while the mass before it is less than top_p.
    beyond = (mass.cumsum(-1) - mass >= options.top_p) & (rank > 0)
    scores = scores.masked_fill(beyond | (greedy & (rank > 0)), -torch.inf)
    return values.gather(-1, (scores + noise[:, :count]).argmax(-1, keepdim=True)).squeeze(1)
