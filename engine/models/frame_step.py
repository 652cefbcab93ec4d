"""One frame of speech for a batch of rows, from the last input column to the next, with nothing asked of the host.

Source: the generation of Fish Audio's S2 reference: Slow AR step, semantic draw, nine residual draws of the Fast AR.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from engine.models.fast_ar import FastAR
from engine.models.kv_cache import Past
from engine.models.sampling import REPETITION_WINDOW, RowOptions, exponential_noise, sample, sample_semantic
from engine.models.slow_ar import SlowAR


@dataclass
class Rows:
    """Where B requests stand between two frames.

    column: int64 `[B, K + 1]`, the next input. position: int64 `[B]`, where it goes. frame: int64 `[B]`, frames drawn.
    recent: int64 `[B, W]`, the semantic tokens drawn last, -1 before the first. key: int64 `[B]`, of the noise.
    temperature, top_p: fp32 `[B, 1]`. top_k: int64 `[B, 1]`.
    """

    column: Tensor
    position: Tensor
    frame: Tensor
    recent: Tensor
    key: Tensor
    temperature: Tensor
    top_p: Tensor
    top_k: Tensor

    # What a frame changes; the rest is the request's.
    MOVING = ("column", "position", "frame", "recent")

    @classmethod
    def idle(cls, rows: int, num_codebooks: int, device: torch.device) -> "Rows":
        """Rows that nobody speaks in: greedy, at position 0."""

        def whole(*shape: int) -> Tensor:
            return torch.zeros(rows, *shape, dtype=torch.long, device=device)

        flat = torch.zeros(rows, 1, device=device)
        recent = whole(REPETITION_WINDOW) - 1
        return cls(whole(num_codebooks + 1), whole(), whole(), recent, whole(), flat, flat + 1, whole(1) + 1)

    @property
    def options(self) -> RowOptions:
        return RowOptions(self.temperature, self.top_p, self.top_k)

    def first(self, rows: int) -> "Rows":
        """A view of the first rows."""
        return Rows(*(getattr(self, field.name)[:rows] for field in fields(self)))

    def take(self, index: Tensor) -> "Rows":
        """A copy of the rows at int64 `index` `[B]`."""
        return Rows(*(getattr(self, field.name)[index] for field in fields(self)))


class Frame:
    """Both transformers of a model, run for one frame.

    residual_size: entries of a residual codebook; what the Fast AR's head knows beyond is not multiplied.
    """

    def __init__(self, slow: SlowAR, fast: FastAR, residual_size: int) -> None:
        self.slow, self._fast, self._residual_size = slow, fast, residual_size
        self._semantic_size = slow.dual.semantic_codebook_size
        self._start = slow.dual.semantic_start_id
        self.draws = slow.dual.num_codebooks + 1  # the semantic token has two

    def semantic(self, rows: Rows, past: Past, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The Slow AR's part: → (semantic draw `[B]`, the end token counting as S; vector for the Fast AR `[B, D]`).

        noise `[B, draws, C]`, C at least every row's top_k.
        """
        normed, vectors = self.slow(rows.column[:, :, None], past)
        logits = self.slow.logits(normed)[:, 0]
        return sample_semantic(logits, rows.options, rows.recent, noise[:, :2]), vectors[:, 0]

    def codes(self, options: RowOptions, vector: Tensor, semantic: Tensor, noise: Tensor) -> Tensor:
        """The Fast AR's part: → the frame's codes `[B, K]`. Those of a row that drew the end mean nothing."""

        def draw(logits: Tensor, codebook: int) -> Tensor:
            return sample(logits, options, noise[:, 1 + codebook])

        return self._fast.generate(vector, semantic.clamp(max=self._semantic_size - 1), draw, self._residual_size)

    def noise(self, rows: Rows, candidates: int) -> Tensor:
        return exponential_noise(rows.key, rows.frame, self.draws, candidates)

    def next_rows(self, rows: Rows, semantic: Tensor, codes: Tensor) -> Rows:
        """Where the rows stand once the frame is drawn."""
        column = torch.cat((codes[:, :1] + self._start, codes), dim=1)
        recent = torch.cat((rows.recent[:, 1:], semantic[:, None]), dim=1)
        moved = (column, rows.position + 1, rows.frame + 1, recent)
        return Rows(*moved, rows.key, rows.temperature, rows.top_p, rows.top_k)
