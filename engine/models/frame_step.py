"""One frame of speech for a batch, from the last input column to the next, without synchronising with the host.

One step of the slow stack, the semantic draw, the residual draws of the fast stack, and the next column: the generation
loop of Fish Audio's S2 reference and of Qwen3-TTS.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from engine.models.kv_cache import KVView
from engine.models.sampling import RowOptions, gumbel_noise
from engine.models.stacks import FastStack, SlowStack


@dataclass
class DecodeState:
    """Decoding state of B requests between frames.

    column: int64 `[B, rows]`, the next input.
    position: int64 `[B]`, its position in the cache.
    frame: int64 `[B]`, number of frames drawn.
    drawn: int64 `[B, W]`, what the sampling rules keep of earlier draws.
    key: int64 `[B]`, random key of the noise.
    temperature, top_p: fp32 `[B, 1]`. top_k: int64 `[B, 1]`.
    """

    column: Tensor
    position: Tensor
    frame: Tensor
    drawn: Tensor
    key: Tensor
    temperature: Tensor
    top_p: Tensor
    top_k: Tensor

    @classmethod
    def idle(cls, rows: int, slow: SlowStack, device: torch.device) -> "DecodeState":
        """Create the state of unused rows: greedy, at position 0."""

        def whole(*shape: int) -> Tensor:
            return torch.zeros(rows, *shape, dtype=torch.long, device=device)

        flat = torch.zeros(rows, 1, dtype=torch.float32, device=device)
        drawn = slow.rules.nothing_drawn(rows, device)
        return cls(whole(slow.column_rows), whole(), whole(), drawn, whole(), flat, flat + 1, whole(1) + 1)

    @property
    def mutable(self) -> tuple[Tensor, ...]:
        """The fields that a frame changes; the others are constant for a request."""
        return self.column, self.position, self.frame, self.drawn

    @property
    def options(self) -> RowOptions:
        return RowOptions(self.temperature, self.top_p, self.top_k)

    def first(self, rows: int) -> "DecodeState":
        """Return a view of the first rows."""
        return DecodeState(*(getattr(self, field.name)[:rows] for field in fields(self)))

    def take(self, index: Tensor) -> "DecodeState":
        """Return a copy of the rows at int64 `index` `[B]`."""
        return DecodeState(*(getattr(self, field.name)[index] for field in fields(self)))

    def put(self, index: Tensor, rows: "DecodeState") -> None:
        """Write the fields that a frame has changed to the rows at `index`, from which they were taken."""
        for values, changed in zip(self.mutable, rows.mutable, strict=True):
            values[index] = changed


class FrameStep:
    """One step of both transformers: the parts that a runner calls, eagerly or captured in a graph.

    residual_size: entries of a residual codebook; further rows of the fast stack's head are not multiplied.
    """

    def __init__(self, slow: SlowStack, fast: FastStack, residual_size: int) -> None:
        self.slow, self._fast, self._residual_size = slow, fast, residual_size
        self._rules, self.candidates = slow.rules, slow.rules.candidates
        self.draws = self._rules.draws + slow.num_codebooks - 1

    def semantic(self, state: DecodeState, view: KVView, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Run the slow stack → (semantic draw `[B]`, S for the end token; hidden state for the fast stack `[B, D]`).

        noise: `[B, draws, C]`, C at least every row's top_k.
        """
        normed, hidden = self.slow(state.column[:, :, None], view)
        logits = self.slow.logits(normed)[:, 0]
        own, backend = noise[:, : self._rules.draws], self.slow.sampling_backend
        return self._rules.semantic(logits, state.options, state.drawn, state.frame, own, backend), hidden[:, 0]

    def codes(self, options: RowOptions, hidden: Tensor, semantic: Tensor, noise: Tensor) -> Tensor:
        """Run the fast stack → the frame's codes `[B, K]`, meaningless for a row that drew the end token."""
        draw = self._rules.residual(options, noise.shape[-1], self.slow.sampling_backend)
        noises = noise.unbind(1)[self._rules.draws - 1 :]
        codes = semantic.clamp(max=self.slow.semantic_codebook_size - 1)
        return self._fast.generate(
            hidden, codes, lambda logits, codebook: draw(logits, noises[codebook]), self._residual_size
        )

    def noise(self, state: DecodeState, candidates: int) -> Tensor:
        make = gumbel_noise if self.slow.sampling_backend is None else self.slow.sampling_backend.noise
        return make(state.key, state.frame, self.draws, candidates)

    def next_state(self, state: DecodeState, semantic: Tensor, codes: Tensor) -> DecodeState:
        """Return the state after the frame."""
        drawn = self._rules.remember(state.drawn, state.frame, semantic)
        moved = (self.slow.next_column(codes), state.position + 1, state.frame + 1, drawn)
        return DecodeState(*moved, state.key, state.temperature, state.top_p, state.top_k)
