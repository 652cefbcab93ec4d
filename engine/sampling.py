"""From logits to values: filtering, drawing, and the repetition-aware draw of the semantic token.

Source: the sampling of Fish Audio's S2 reference; repetition-aware sampling after VALL-E 2 (arXiv:2406.05370).
"""

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import InvalidOption

REPETITION_WINDOW = 10
REPETITION_TEMPERATURE = 1.0
REPETITION_TOP_P = 0.9


@dataclass(frozen=True)
class SamplingOptions:
    """temperature 0–2 (0 is greedy), top_p 0–1, top_k ≥ 1."""

    temperature: float = 0.7
    top_p: float = 0.8
    top_k: int = 30

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2:
            raise InvalidOption(f"The temperature is {self.temperature:g}; choose one from 0 to 2.")
        if not 0 < self.top_p <= 1:
            raise InvalidOption(f"Top-p is {self.top_p:g}; choose a number above 0 and up to 1.")
        if self.top_k < 1:
            raise InvalidOption(f"Top-k is {self.top_k}; choose 1 or more.")


def filtered_probabilities(logits: Tensor, options: SamplingOptions) -> Tensor:
    """Logits `[…, V]` → probabilities `[…, V]`, fp32.

    A value is dropped when the probability (untempered) of all values up to and including it exceeds `top_p`, or when
    `top_k` values are likelier; the likeliest is never dropped.
    """
    logits = logits.float()
    ranked, order = logits.sort(dim=-1, descending=True)
    drop = ranked.softmax(-1).cumsum(-1) > options.top_p
    drop[..., options.top_k :] = True
    drop[..., 0] = False
    kept = torch.empty_like(logits).scatter_(-1, order, ranked.masked_fill(drop, -torch.inf))
    return (kept / max(options.temperature, 1e-5)).softmax(-1)


def draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """One value a row of `[…, V]`, with those probabilities: argmax(p / e), e ~ Exp(1), which needs no host sync."""
    noise = torch.empty_like(probabilities).exponential_(generator=generator)
    return (probabilities / noise).argmax(-1)


def sample(logits: Tensor, options: SamplingOptions, generator: torch.Generator | None) -> Tensor:
    """Logits `[…, V]` → values `[…]`; greedy at temperature 0."""
    if options.temperature == 0:
        return logits.argmax(-1)
    # Only the top_k largest can survive the filter, but top_p counts the mass of all: normalise before cutting.
    if options.top_k < logits.shape[-1]:
        ranked, order = logits.float().topk(options.top_k, dim=-1)
        mass = (ranked - logits.float().logsumexp(-1, keepdim=True)).exp().cumsum(-1)
        drop = mass > options.top_p
        drop[..., 0] = False
        ranked = ranked.masked_fill(drop, -torch.inf) / max(options.temperature, 1e-5)
        return order.gather(-1, draw(ranked.softmax(-1), generator)[..., None])[..., 0]
    return draw(filtered_probabilities(logits, options), generator)


class SemanticSampler:
    """Draws the semantic token of one request; a token among the last ten is drawn anew, more freely.

    Not applied to the first frame, as in the reference.
    """

    def __init__(self, options: SamplingOptions, generator: torch.Generator | None) -> None:
        self._options, self._generator = options, generator
        self._free = SamplingOptions(REPETITION_TEMPERATURE, REPETITION_TOP_P, options.top_k)
        self._recent: deque[int] = deque(maxlen=REPETITION_WINDOW)

    def __call__(self, logits: Tensor) -> int:
        """Logits `[V]` → the index drawn."""
        value = int(sample(logits, self._options, self._generator))
        if value in self._recent and self._options.temperature > 0:
            value = int(sample(logits, self._free, self._generator))
        self._recent.append(value)
        return value
