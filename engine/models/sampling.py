"""Sampling: filtering and drawing, the repetition-aware draw of the semantic token, and the rules of a family.

Each row has its own options and noise, and nothing synchronises with the host: sampling can run inside a CUDA graph,
and the draws of a row do not depend on the rest of its batch.

Source: the sampling of Fish Audio's S2 reference; repetition-aware sampling after VALL-E 2 (arXiv:2406.05370);
the noise is SplitMix64 (Steele, Lea and Flood 2014) of a counter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, SupportsFloat

import torch
from torch import Tensor

from engine.errors import InvalidOption

# Maximum number of candidates of a draw.
MAX_TOP_K = 256

REPETITION_TEMPERATURE = 1.0
REPETITION_TOP_P = 0.9

# Inverse temperature of a greedy row: with it, the smallest difference of two log-probabilities outweighs all noise.
GREEDY = 1e30

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
MIX_2 = 0x94D049BB133111EB - 2**64


@dataclass(frozen=True)
class SamplingOptions:
    """Sampling options: temperature 0–2 (0 is greedy), top_p 0–1, top_k 1–256. Raises InvalidOption.

    Numbers of other libraries, such as NumPy's, are converted to Python's.
    """

    temperature: float = 0.7
    top_p: float = 0.8
    top_k: int = 30

    def __post_init__(self) -> None:
        temperature, top_p, top_k = as_number(self.temperature), as_number(self.top_p), as_integer(self.top_k)
        if temperature is None or not 0 <= temperature <= 2:
            raise InvalidOption("option.temperature", value=option_value(self.temperature))
        if top_p is None or not 0 < top_p <= 1:
            raise InvalidOption("option.top_p", value=option_value(self.top_p))
        if top_k is None or not 1 <= top_k <= MAX_TOP_K:
            raise InvalidOption("option.top_k", value=option_value(self.top_k), most=MAX_TOP_K)
        object.__setattr__(self, "temperature", temperature)
        object.__setattr__(self, "top_p", top_p)
        object.__setattr__(self, "top_k", top_k)


def as_number(value: SupportsFloat) -> float | None:
    """Return a number as Python's float; None for anything else, such as text."""
    try:
        return None if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def as_integer(value: SupportsFloat) -> int | None:
    """Return a whole number, in whatever type, as Python's int; None for anything else."""
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def option_value(value: object) -> float | str:
    """Return the value of an option for a message: a number, formatted for the user's language, or text."""
    return value if isinstance(value, int | float) else str(value)[:40]


@dataclass(frozen=True)
class RowFilter:
    """Filter for C ranked values of each row, built once for all draws of a frame.

    most_mass: fp32 `[B, C]`; a value is dropped when the cumulative probability up to and including it is greater.
    inverse_temperature: fp32 `[B, 1]`, the reciprocal of the temperature.
    """

    most_mass: Tensor
    inverse_temperature: Tensor


@dataclass(frozen=True)
class RowOptions:
    """Sampling options of B rows: temperature and top_p fp32 `[B, 1]`, top_k int64 `[B, 1]`."""

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor

    def filter(self, candidates: int) -> RowFilter:
        """Build the filter of the C = `candidates` likeliest values. It keeps at most top_k and top_p, at least one."""
        rank = torch.arange(candidates, device=self.top_k.device)
        most_mass = torch.where(rank < self.top_k, self.top_p, -1.0).masked_fill_(rank == 0, torch.inf)
        inverse_temperature = self.temperature.clamp(min=1e-5).reciprocal_().masked_fill_(self.temperature == 0, GREEDY)
        return RowFilter(most_mass, inverse_temperature)

    def redraw_options(self) -> "RowOptions":
        """Return the options for redrawing a repeated semantic token; a greedy row stays greedy."""
        return self._with(REPETITION_TEMPERATURE, REPETITION_TOP_P, self.top_k)

    def replaced(self, options: SamplingOptions) -> "RowOptions":
        """Return `options` for all rows; a greedy row stays greedy."""
        return self._with(options.temperature, options.top_p, torch.full_like(self.top_k, options.top_k))

    def _with(self, temperature: float, top_p: float, top_k: Tensor) -> "RowOptions":
        greedy = self.temperature == 0
        temperatures = torch.full_like(self.temperature, temperature).masked_fill_(greedy, 0)
        return RowOptions(temperatures, torch.full_like(self.top_p, top_p), top_k)


@dataclass(frozen=True)
class Ranked:
    """The likeliest values of each row, likeliest first, all `[B, C]`.

    log_probs: fp32, at temperature 1. mass: cumulative probability up to and including each value. values: their
    indices.
    """

    log_probs: Tensor
    mass: Tensor
    values: Tensor

    @classmethod
    def of(cls, logits: Tensor, candidates: int) -> "Ranked":
        """Rank the C = min(candidates, V) likeliest of logits `[B, V]`. The mass is normalised over all V."""
        log_probs, values = logits.log_softmax(-1, dtype=torch.float32).topk(min(candidates, logits.shape[-1]), dim=-1)
        return cls(log_probs, log_probs.exp().cumsum(-1), values)

    def filtered(self, row_filter: RowFilter) -> Tensor:
        """Return the log-probabilities of the values that are kept, -inf for the others, `[B, C]`."""
        return self.log_probs.masked_fill(self.mass > self._like(row_filter.most_mass), -torch.inf)

    def draw(self, row_filter: RowFilter, noise: Tensor) -> Tensor:
        """Draw one value per row `[B]` by the Gumbel trick: the argmax of log p / temperature + noise `[B, ≥ C]`."""
        scores = torch.addcmul(self._like(noise), self.filtered(row_filter), row_filter.inverse_temperature)
        return self.values.gather(-1, scores.argmax(-1, keepdim=True)).squeeze(1)

    def _like(self, x: Tensor) -> Tensor:
        """Cut x `[B, ≥ C]` to `[B, C]`: there may be fewer values than candidates."""
        count = self.values.shape[-1]
        return x if x.shape[-1] == count else x[:, :count]


def sample(logits: Tensor, row_filter: RowFilter, noise: Tensor) -> Tensor:
    """Draw from logits `[B, V]` → values `[B]`; noise `[B, C]` is Gumbel(0, 1), C that of the filter."""
    return Ranked.of(logits, noise.shape[-1]).draw(row_filter, noise)


def sample_semantic(logits: Tensor, options: RowOptions, recent: Tensor, noise: Tensor) -> Tensor:
    """Draw from logits `[B, V]` → values `[B]`; a value in the row's `recent` `[B, W]` is redrawn with freer options.

    noise: `[B, 2, C]`, for the first draw and the second.
    """
    candidates = noise.shape[-1]
    ranked = Ranked.of(logits, candidates)
    first = ranked.draw(options.filter(candidates), noise[:, 0])
    second = ranked.draw(options.redraw_options().filter(candidates), noise[:, 1])
    return torch.where((recent == first[:, None]).any(-1), second, first)


def penalised(logits: Tensor, repeated: Tensor, penalty: float) -> Tensor:
    """Return logits `[B, V]` in fp32, in which the values marked in `repeated` `[B, V]` are less likely (Keskar et al.
    2019)."""
    logits = logits.float()
    return torch.where(repeated, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


ResidualSampler = Callable[[Tensor, Tensor], Tensor]
"""Function that draws from logits `[B, V]` with noise `[B, C]` → values `[B]`."""


class SampleFunction(Protocol):
    """`sample`, or `sample_semantic` if `recent` is given, in one call."""

    def __call__(self, logits: Tensor, options: RowOptions, noise: Tensor, recent: Tensor | None = None) -> Tensor: ...


@dataclass(frozen=True)
class SamplingBackend:
    """Kernels that replace this module's functions: one for the noise of a frame, one for each of its draws.

    noise: takes the arguments of `gumbel_noise`.
    """

    noise: Callable[[Tensor, Tensor, int, int], Tensor]
    draw: SampleFunction


class SamplingRules(Protocol):
    """Rules by which a family draws the tokens of a frame. `drawn` int64 `[B, W]` is their memory of earlier draws.

    draws: number of noise draws that the semantic token takes. candidates: a power of two, at least the usual top_k;
        captured steps draw from this many.
    """

    draws: int
    candidates: int

    def nothing_drawn(self, rows: int, device: torch.device) -> Tensor:
        """Return `drawn` before the first frame."""

    def semantic(
        self,
        logits: Tensor,
        options: RowOptions,
        drawn: Tensor,
        frame: Tensor,
        noise: Tensor,
        backend: SamplingBackend | None = None,
    ) -> Tensor:
        """Draw from logits `[B, S + 1]` → values `[B]`, S for the end. frame: `[B]`, frames drawn before.

        backend: equivalent to `sample` and `sample_semantic`, for rules that use these.
        """

    def residual(self, options: RowOptions, candidates: int, backend: SamplingBackend | None = None) -> ResidualSampler:
        """Return the function that draws residual codes, built once per frame.

        candidates: C, at least every row's top_k.
        """

    def remember(self, drawn: Tensor, frame: Tensor, semantic: Tensor) -> Tensor:
        """Return `drawn` after a frame with the semantic draw `[B]`."""


def gumbel_noise(keys: Tensor, frames: Tensor, draws: int, candidates: int) -> Tensor:
    """Return Gumbel(0, 1) noise `[B, draws, candidates]` fp32, a function of key, frame, draw and rank alone.

    Args:
        keys: int64 `[B]`, one pseudo-random key per request.
        frames: int64 `[B]`, number of frames drawn before.
    """
    ranks = torch.arange(candidates, device=keys.device)
    places = torch.arange(draws, device=keys.device)[:, None] * MAX_TOP_K + ranks
    counters = frames[:, None, None] * (draws * MAX_TOP_K) + places
    mixed = _mixed(keys[:, None, None] + counters * GOLDEN)
    return uniform(mixed).log_().neg_().log_().neg_()


def uniform(bits: Tensor) -> Tensor:
    """Turn int64 random bits into fp32 numbers strictly between 0 and 1: the upper 23 bits plus a half.

    With 24 bits the largest would round to 1, and its infinite noise would win every argmax.
    """
    return (_shifted(bits, 41).float() + 0.5) * 2.0**-23


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * MIX_1
    x = (x ^ _shifted(x, 27)) * MIX_2
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift right logically: torch's int64 is signed."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
