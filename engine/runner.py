"""Runs the two transformers for one request at a time, frame by frame, for any number of threads."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from engine.checkpoint import DualAR
from engine.models.kv_cache import KVCache

# Long prompts go through in pieces, so that speech under way elsewhere waits for a piece at most.
PREFILL_POSITIONS = 512


class FairLock:
    """A lock that is handed on in the order of asking; a plain one may be retaken at once by who released it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._guard:
            ticket = threading.Lock()
            ticket.acquire()
            if self._taken:
                self._waiting.append(ticket)
            else:
                self._taken = True
                ticket.release()
        ticket.acquire()
        try:
            yield
        finally:
            with self._guard:
                if self._waiting:
                    self._waiting.popleft().release()
                else:
                    self._taken = False


class Runner:
    """Steps of the Slow and Fast AR. Each call takes the lock for one step, so requests advance in turn."""

    def __init__(self, model: DualAR, residual_size: int) -> None:
        self._slow, self._fast, self._config = model.slow, model.fast, model.config
        self._residual_size = residual_size
        self._device = model.slow.norm.weight.device
        self._lock = FairLock()

    @property
    def end_index(self) -> int:
        """The index of the end token among the logits: behind the semantic tokens."""
        return self._config.semantic_codebook_size

    @property
    def max_positions(self) -> int:
        return self._config.slow.max_seq_len

    def new_cache(self, positions: int) -> KVCache:
        return self._slow.new_cache(1, positions)

    @torch.inference_mode()
    def prefill(self, cache: KVCache, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Columns `[K + 1, T]`, T ≥ 1, go behind what the cache holds.

        Returns: the last column's normed output and its vector for the Fast AR, both `[D]`.
        """
        for piece in torch.split(columns[None].to(self._device), PREFILL_POSITIONS, dim=2):
            with self._lock():
                normed, vectors = self._slow(piece, cache)
        return normed[0, -1], vectors[0, -1]

    @torch.inference_mode()
    def logits(self, normed: Tensor) -> Tensor:
        """`[D]` → `[S + 1]`."""
        with self._lock():
            return self._slow.logits(normed)

    @torch.inference_mode()
    def complete_frame(self, vector: Tensor, semantic_code: int, sample: Callable[[Tensor], Tensor]) -> Tensor:
        """The Slow AR's vector `[D]` and codebook 0 → all codes of the frame `[K]`."""
        with self._lock():
            first = torch.tensor([semantic_code], device=self._device)
            return self._fast.generate(vector[None], first, sample, self._residual_size)[0]

    @torch.inference_mode()
    def decode_step(self, cache: KVCache, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Append the frame `[K]` to the conversation; returns what `prefill` does."""
        column = torch.cat((codes[:1] + self._config.semantic_start_id, codes))
        with self._lock():
            normed, vectors = self._slow(column[None, :, None], cache)
        return normed[0, -1], vectors[0, -1]
