"""One frame of speech for a batch, from the last input column to the next, without synchronising with the host.

Source: the generation loop of Fish Audio's S2 reference: Slow AR step, semantic draw, residual draws of the Fast AR.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from engine.models.fast_ar import FastAR
from engine.models.kv_cache import KVView
from engine.models.sampling import REPETITION_WINDOW, RowOptions, gumbel_noise, sample, sample_semantic
from engine.models.slow_ar import SlowAR


@dataclass
class DecodeState:
    """Decoding state of B requests between frames.

    column: int64 `[B, K + 1]`, the next input.
    position: int64 `[B]`, its position in the cache.
    frame: int64 `[B]`, number of frames drawn.
    recent: int64 `[B, W]`, the semantic tokens of the last frames, -1 for the first frame and before it.
    key: int64 `[B]`, random key of the noise.
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

    # Fields that a frame changes; the others are constant for a request.
    MOVING = ("column", "position", "frame", "recent")

    @classmethod
    def idle(cls, rows: int, num_codebooks: int, device: torch.device) -> "DecodeState":
        """Make the state of unused rows: greedy, at position 0."""

        def whole(*shape: int) -> Tensor:
            return torch.zeros(rows, *shape, dtype=torch.long, device=device)

        flat = torch.zeros(rows, 1, device=device)
        recent = whole(REPETITION_WINDOW) - 1
        return cls(whole(num_codebooks + 1), whole(), whole(), recent, whole(), flat, flat + 1, whole(1) + 1)

    @property
    def options(self) -> RowOptions:
        return RowOptions(self.temperature, self.top_p, self.top_k)

    def first(self, rows: int) -> "DecodeState":
        """Return a view of the first rows."""
        return DecodeState(*(getattr(self, field.name)[:rows] for field in fields(self)))

    def take(self, index: Tensor) -> "DecodeState":
        """Return a copy of the rows at int64 `index` `[B]`."""
        return DecodeState(*(getattr(self, field.name)[index] for field in fields(self)))


class FrameStep:
    """One step of both transformers: the parts that a runner calls, eagerly or captured in a graph.

    residual_size: entries of a residual codebook; rows of the Fast AR's head beyond are not multiplied.
    """

    def __init__(self, slow: SlowAR, fast: FastAR, residual_size: int) -> None:
        self.slow, self._fast, self._residual_size = slow, fast, residual_size
        self._semantic_size = slow.dual.semantic_codebook_size
        self._start = slow.dual.semantic_start_id
        self.draws = slow.dual.num_codebooks + 1  # the semantic token has two

    def semantic(self, state: DecodeState, view: KVView, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Run the Slow AR → (semantic draw `[B]`, S for the end token; vector for the Fast AR `[B, D]`).

        noise: `[B, draws, C]`, C at least every row's top_k.
        """
        normed, vectors = self.slow(state.column[:, :, None], view)
        logits = self.slow.logits(normed)[:, 0]
        return sample_semantic(logits, state.options, state.recent, noise[:, :2]), vectors[:, 0]

    def codes(self, options: RowOptions, vector: Tensor, semantic: Tensor, noise: Tensor) -> Tensor:
        """Run the Fast AR → the frame's codes `[B, K]`, meaningless for a row that drew the end token."""

        row_filter, noises = options.filter(noise.shape[-1]), noise.unbind(1)

        def draw(logits: Tensor, codebook: int) -> Tensor:
            return sample(logits, row_filter, noises[1 + codebook])

        return self._fast.generate(vector, semantic.clamp(max=self._semantic_size - 1), draw, self._residual_size)

    def noise(self, state: DecodeState, candidates: int) -> Tensor:
        return gumbel_noise(state.key, state.frame, self.draws, candidates)

    def next_state(self, state: DecodeState, semantic: Tensor, codes: Tensor) -> DecodeState:
        """Return the state after the frame."""
        column = torch.cat((codes[:, :1] + self._start, codes), dim=1)
        # As in the reference, the first frame is not in the window.
        remembered = torch.where(state.frame > 0, semantic, -1)
        recent = torch.cat((state.recent[:, 1:], remembered[:, None]), dim=1)
        moved = (column, state.position + 1, state.frame + 1, recent)
        return DecodeState(*moved, state.key, state.temperature, state.top_p, state.top_k)
