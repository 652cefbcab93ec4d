"""One turn of speech being generated: its frames so far, and why it stopped."""

from typing import Literal

import torch
from torch import Tensor

from engine.models.kv_cache import KVCache
from engine.runner import Runner
from engine.sampling import SamplingOptions, SemanticSampler, sample

TurnStop = Literal["end", "length", "loop"]

# A loop is a stretch of semantic tokens said over and over. Pauses repeat tokens too, but not for this long.
LOOP_MAX_PERIOD = 24
LOOP_MIN_FRAMES = 40
LOOP_MIN_REPEATS = 3


def is_looping(semantic_codes: list[int]) -> bool:
    """Whether the last two seconds or more only repeat themselves."""
    for period in range(1, LOOP_MAX_PERIOD + 1):
        span = max(LOOP_MIN_FRAMES, LOOP_MIN_REPEATS * period)
        if len(semantic_codes) >= span:
            tail = semantic_codes[-span:]
            if tail[period:] == tail[:-period]:
                return True
    return False


class Turn:
    """Frames of one turn, one at a time, until the model ends it, loops, or uses up its budget.

    The cache holds the conversation up to and including the open assistant turn; `next_frame` extends it.
    """

    def __init__(
        self,
        runner: Runner,
        cache: KVCache,
        prompt: Tensor,
        *,
        budget: int,
        options: SamplingOptions,
        generator: torch.Generator,
    ) -> None:
        self._runner, self._cache, self._budget = runner, cache, budget
        self._options, self._generator = options, generator
        self._sample_semantic = SemanticSampler(options, generator)
        self._normed, self._vector = runner.prefill(cache, prompt)
        self.semantic_codes: list[int] = []
        self.stop: TurnStop | None = None

    @property
    def frames(self) -> int:
        return len(self.semantic_codes)

    def next_frame(self) -> Tensor | None:
        """The next frame's codes `[K]`, or None once the turn has stopped and `stop` says why."""
        if self.stop is None and self.frames >= self._budget:
            self.stop = "length"
        if self.stop is None and is_looping(self.semantic_codes):
            self.stop = "loop"
        if self.stop is not None:
            return None
        index = self._sample_semantic(self._runner.logits(self._normed))
        if index == self._runner.end_index:
            self.stop = "end"
            return None
        codes = self._runner.complete_frame(self._vector, index, self._sample_residual)
        self._normed, self._vector = self._runner.decode_step(self._cache, codes)
        self.semantic_codes.append(index)
        return codes

    def _sample_residual(self, logits: Tensor) -> Tensor:
        return sample(logits, self._options, self._generator)
