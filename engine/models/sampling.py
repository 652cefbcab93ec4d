"""Sampling: filtering and drawing, and the repetition-aware draw of the semantic token.

Each row has its own options and noise, and nothing synchronises with the host: sampling can run inside a CUDA graph,
and the draws of a row do not depend on the rest of its batch.

Source: the sampling of Fish Audio's S2 reference; repetition-aware sampling after VALL-E 2 (arXiv:2406.05370);
the noise is SplitMix64 (Steele, Lea and Flood 2014) of a counter.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import InvalidOption

# Most candidates of a draw.
MAX_TOP_K = 256

REPETITION_WINDOW = 10
REPETITION_TEMPERATURE = 1.0
REPETITION_TOP_P = 0.9

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64


@dataclass(frozen=True)
class SamplingOptions:
    """Sampling options: temperature 0–2 (0 is greedy), top_p 0–1, top_k 1–256. Raises InvalidOption."""

    temperature: float = 0.7
    top_p: float = 0.8
    top_k: int = 30

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2:
            raise InvalidOption(f"The temperature is {self.temperature:g}; choose one from 0 to 2.")
        if not 0 < self.top_p <= 1:
            raise InvalidOption(f"Top-p is {self.top_p:g}; choose a number above 0 and up to 1.")
        if not 1 <= self.top_k <= MAX_TOP_K:
            raise InvalidOption(f"Top-k is {self.top_k}; choose a whole number from 1 to {MAX_TOP_K}.")


@dataclass(frozen=True)
class RowOptions:
    """Sampling options of B rows: temperature and top_p fp32 `[B, 1]`, top_k int64 `[B, 1]`."""

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor


@dataclass(frozen=True)
class Ranked:
    """The likeliest values of each row, likeliest first, all `[B, C]`.

    logits: fp32. mass: cumulative probability up to and including each value, at temperature 1. values: their indices.
    """

    logits: Tensor
    mass: Tensor
    values: Tensor

    @classmethod
    def of(cls, logits: Tensor, candidates: int) -> "Ranked":
        """Rank the C = min(candidates, V) likeliest of logits `[B, V]`. The mass is normalised over all V."""
        logits = logits.float()
        ranked, values = logits.topk(min(candidates, logits.shape[-1]), dim=-1)
        best = ranked[:, :1]
        total = (logits - best).exp_().sum(-1, keepdim=True)
        return cls(ranked, (ranked - best).exp_().cumsum(-1) / total, values)

    def probabilities(self, options: RowOptions) -> Tensor:
        """Return filtered probabilities `[B, C]`.

        A value is dropped when its mass exceeds top_p or top_k values are likelier; the first is always kept.
        """
        rank = torch.arange(self.mass.shape[-1], device=self.mass.device)
        drop = ((self.mass > options.top_p) | (rank >= options.top_k)) & (rank > 0)
        return (self.logits.masked_fill(drop, -torch.inf) / options.temperature.clamp(min=1e-5)).softmax(-1)

    def draw(self, options: RowOptions, noise: Tensor) -> Tensor:
        """Draw one value per row `[B]` by the exponential trick, argmax(p / e), with e from `noise` `[B, ≥ C]`."""
        drawn = (self.probabilities(options) / noise[:, : self.mass.shape[-1]]).argmax(-1, keepdim=True)
        drawn = torch.where(options.temperature > 0, drawn, 0)
        return self.values.gather(-1, drawn)[:, 0]


def sample(logits: Tensor, options: RowOptions, noise: Tensor) -> Tensor:
    """Draw from logits `[B, V]` → values `[B]`; noise `[B, C]` is Exp(1), C at least every row's top_k."""
    return Ranked.of(logits, noise.shape[-1]).draw(options, noise)


def sample_semantic(logits: Tensor, options: RowOptions, recent: Tensor, noise: Tensor) -> Tensor:
    """Draw from logits `[B, V]` → values `[B]`; a value in the row's `recent` `[B, W]` is redrawn with freer options.

    noise: `[B, 2, C]`, for the first draw and the second.
    """
    ranked = Ranked.of(logits, noise.shape[-1])
    first = ranked.draw(options, noise[:, 0])
    free = RowOptions(
        torch.full_like(options.temperature, REPETITION_TEMPERATURE),
        torch.full_like(options.top_p, REPETITION_TOP_P),
        options.top_k,
    )
    again = (recent == first[:, None]).any(-1) & (options.temperature[:, 0] > 0)
    return torch.where(again, ranked.draw(free, noise[:, 1]), first)


def exponential_noise(keys: Tensor, frames: Tensor, draws: int, candidates: int) -> Tensor:
    """Return Exp(1) noise `[B, draws, candidates]` fp32, a function of key, frame, draw and rank alone.

    Args:
        keys: int64 `[B]`, one pseudo-random key per request.
        frames: int64 `[B]`, number of frames drawn before.
    """
    ranks = torch.arange(candidates, device=keys.device)
    places = torch.arange(draws, device=keys.device)[:, None] * MAX_TOP_K + ranks
    counters = frames[:, None, None] * (draws * MAX_TOP_K) + places
    mixed = _mixed(keys[:, None, None] + counters * _GOLDEN)
    return uniform(mixed).log().neg()


def uniform(bits: Tensor) -> Tensor:
    """Turn int64 random bits into fp32 numbers strictly between 0 and 1: the upper 23 bits and a half.

    With 24 bits the largest would be rounded to 1. Its noise would be 0, and 0 / 0 wins every argmax.
    """
    return (_shifted(bits, 41).float() + 0.5) * 2.0**-23


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _MIX_1
    x = (x ^ _shifted(x, 27)) * _MIX_2
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift right logically: torch's int64 is signed."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
