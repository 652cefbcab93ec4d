"""Training of the codebooks, separate from the codec's inference code.

Entries are an exponential moving average (EMA) of the vectors assigned to them (van den Oord et al. 2017, appendix
A.1), because with a few dozen frames per step gradients would move them too slowly. They are initialised by k-means,
and dead ones restart. The average covers a number of vectors, not of steps: a step on a CPU has fewer frames than
entries, and an average of a few vectors makes the entries wander. The projections around them are trained with the
straight-through estimator and a commitment loss. The last codebooks are dropped for some of the samples (Zeghidour et
al. 2021). Codes come from the engine's own lookup.

Random draws come from the caller's CPU generator, so they are the same on every device.
Shapes: B batch, D latent width, d codebook width, K codebooks, T frames, N = B * T.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.codec import Codec, CodecDecoder
from engine.codec.quantizer import Quantizer, VectorQuantizer

# Vectors in the moving average of an entry.
_AVERAGED = 64
# Use of an entry (1 when all are used equally) below which it is dead, and the use assigned on restart.
_DEAD, _RESTARTED = 0.02, 0.2
_COMMITMENT = 0.25
# Weight of the penalty that keeps the projections bounded while there is no codebook lookup.
_REST = 0.01
_KMEANS_ROUNDS = 12


@dataclass(frozen=True)
class Lookup:
    """One codebook lookup: projected vectors `[N, d]` without gradient, and their codes `[N]`."""

    projected: Tensor
    codes: Tensor


@dataclass(frozen=True)
class Quantized:
    """Output of `quantize`.

    latents: `[B, D, T]`, the sum over all codebooks. semantic: the semantic codebook's part. lookups: one per codebook;
    empty when the lookup is disabled.
    """

    latents: Tensor
    semantic: Tensor
    commitment: Tensor
    lookups: list[Lookup]


def codebooks_of(quantizer: Quantizer) -> list[VectorQuantizer]:
    """Return all K codebooks, the semantic one first."""
    return [*quantizer.semantic_quantizer, *quantizer.quantizer]


def decode_latents(codec: Codec | CodecDecoder, latents: Tensor) -> Tensor:
    """Decode quantized latents `[B, D, T]` to audio `[B, 1, n]`, with gradients."""
    audio: Tensor = codec.decoder(codec.quantizer.upsample(codec.quantizer.post_module(latents)))
    return audio


def quantize(
    quantizer: Quantizer, z: Tensor, generator: torch.Generator, *, share: float = 1.0, dropout: float = 0.0
) -> Quantized:
    """Quantize latents `[B, D, T]` with all codebooks, with gradients.

    Args:
        share: fraction of the samples to quantize, drawn for each codebook; 0 disables the lookup.
        dropout: fraction of the samples that use only a random number of residual codebooks.
    """
    kept = _codebooks_kept(len(z), quantizer.num_codebooks, dropout, generator).to(z.device)
    residual, parts, lookups = z, [], []
    commitment = z.new_zeros(())
    for i, codebook in enumerate(codebooks_of(quantizer)):
        projected = codebook.in_proj(residual)
        if share > 0:
            entries, lookup = _look_up(codebook, residual, projected)
            lookups.append(lookup)
            commitment = commitment + _COMMITMENT * F.mse_loss(projected, entries)
            real = torch.rand(len(z), 1, 1, generator=generator).to(z.device) < share
            # Straight-through estimator: the entries in the forward pass, the identity in the backward pass.
            projected = torch.where(real, projected + (entries - projected).detach(), projected)
        else:
            commitment = commitment + _REST * projected.square().mean()
        part = codebook.out_proj(projected)
        residual = residual - part
        parts.append(part * (kept > i)[:, None, None])
    return Quantized(torch.stack(parts).sum(0), parts[0], commitment, lookups)


def _codebooks_kept(batch: int, count: int, dropout: float, generator: torch.Generator) -> Tensor:
    """Draw the number of codebooks that each sample uses `[B]`, always including the semantic one."""
    fewer = torch.randint(1, count + 1, (batch,), generator=generator)
    return torch.where(torch.rand(batch, generator=generator) < dropout, fewer, count)


@torch.no_grad()
def _look_up(codebook: VectorQuantizer, z: Tensor, projected: Tensor) -> tuple[Tensor, Lookup]:
    codes = codebook.nearest(z)
    # A copy, because the codebook is updated before this step's graph is released.
    entries = F.embedding(codes, codebook.codebook.weight).transpose(1, 2)
    return entries, Lookup(_rows(projected), codes.flatten())


def _rows(x: Tensor) -> Tensor:
    """`[B, d, T]` → `[N, d]`"""
    return x.detach().transpose(1, 2).flatten(0, 1)


class CodebookEMA(nn.Module):
    """Exponential moving averages (EMA) of one codebook: the use of each entry, and the sum of its assigned vectors."""

    use: Tensor  # [size]
    total: Tensor  # [size, d]

    def __init__(self, codebook: VectorQuantizer) -> None:
        super().__init__()
        entries = codebook.codebook.weight.detach()
        self.register_buffer("use", torch.ones_like(entries[:, 0]))
        self.register_buffer("total", entries.clone())

    @property
    def used(self) -> float:
        """Fraction of the entries in use."""
        return (self.use > 2 * _DEAD).float().mean().item()

    @torch.no_grad()
    def update(self, entries: Tensor, lookup: Lookup) -> None:
        """Update the averages and `entries` `[size, d]` with the vectors assigned to them in this step (EMA update)."""
        decay = math.exp(-len(lookup.codes) / (len(entries) * _AVERAGED))
        scale = (1 - decay) * len(entries) / len(lookup.codes)
        counts = torch.bincount(lookup.codes, minlength=len(entries)).to(self.use.dtype)
        self.use.mul_(decay).add_(counts, alpha=scale)
        self.total.mul_(decay).index_add_(0, lookup.codes, lookup.projected, alpha=scale)
        mean = self.total / self.use.clamp(min=_DEAD)[:, None]
        entries.copy_(torch.where((self.use > _DEAD)[:, None], mean, entries))

    @torch.no_grad()
    def restart_dead_codes(self, entries: Tensor, lookup: Lookup, generator: torch.Generator) -> None:
        """Move dead entries, which are unused, to vectors of the current step (dead-code restart)."""
        dead = torch.nonzero(self.use < _DEAD)[:, 0]
        entries[dead] = lookup.projected[_draw(len(lookup.projected), len(dead), generator).to(dead.device)]
        self.use[dead] = _RESTARTED
        self.total[dead] = entries[dead] * _RESTARTED

    @torch.no_grad()
    def reset(self, entries: Tensor) -> None:
        """Reset the averages to `entries`, all equally used."""
        self.use.fill_(1.0)
        self.total.copy_(entries)


def _draw(below: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(below, (count,), generator=generator)


class QuantizerEMA(nn.Module):
    """EMA updates of all codebooks of a quantizer. `semantic_stays` keeps the entries of the semantic one."""

    def __init__(self, quantizer: Quantizer, *, semantic_stays: bool = False) -> None:
        super().__init__()
        self._first = int(semantic_stays)
        self._codebooks = codebooks_of(quantizer)  # a plain list, not a ModuleList: they belong to the codec
        self.averages = nn.ModuleList(CodebookEMA(codebook) for codebook in self._codebooks)

    def update(self, lookups: list[Lookup]) -> None:
        """Update all codebooks from the lookups of `quantize`."""
        for codebook, averages, lookup in self._pairs(lookups):
            averages.update(codebook.codebook.weight, lookup)

    def restart_dead_codes(self, lookups: list[Lookup], generator: torch.Generator) -> None:
        for codebook, averages, lookup in self._pairs(lookups):
            averages.restart_dead_codes(codebook.codebook.weight, lookup, generator)

    @torch.no_grad()
    def initialise_by_kmeans(self, z: Tensor, generator: torch.Generator) -> None:
        """Initialise all codebooks from latents `[B, D, T]` by k-means, each from the residual of the previous ones.

        Raises ValueError when there are fewer latents than a codebook has entries.
        """
        residual = z
        for codebook, averages in zip(self._codebooks, self._averages(), strict=True):
            _kmeans(codebook, residual, generator)
            averages.reset(codebook.codebook.weight)
            residual = residual - codebook.from_codes(codebook.nearest(residual))

    def used(self) -> list[float]:
        """Return the fraction of entries in use, for each codebook."""
        return [averages.used for averages in self._averages()]

    def _averages(self) -> list[CodebookEMA]:
        return cast(list[CodebookEMA], list(self.averages))

    def _pairs(self, lookups: list[Lookup]) -> Iterator[tuple[VectorQuantizer, CodebookEMA, Lookup]]:
        return islice(zip(self._codebooks, self._averages(), lookups, strict=True), self._first, None)


def _kmeans(codebook: VectorQuantizer, z: Tensor, generator: torch.Generator) -> None:
    entries, rows = codebook.codebook.weight, _rows(codebook.in_proj(z))
    if len(rows) < len(entries):
        raise ValueError(f"{len(rows)} latents cannot lay out a codebook of {len(entries)} entries.")
    entries.copy_(rows[torch.randperm(len(rows), generator=generator)[: len(entries)].to(rows.device)])
    for _ in range(_KMEANS_ROUNDS):
        codes = codebook.nearest(z).flatten()
        counts = torch.bincount(codes, minlength=len(entries))
        sums = torch.zeros_like(entries).index_add_(0, codes, rows)
        other = rows[_draw(len(rows), len(entries), generator).to(rows.device)]
        entries.copy_(torch.where((counts > 0)[:, None], sums / counts.clamp(min=1)[:, None], other))
