"""The fixed places in which requests are spoken: their prompts, keys and values, and where each stands.

One thread uses them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from engine.models.frame_step import DecodeState
from engine.models.kv_cache import ContiguousView
from engine.models.sampling import SamplingOptions
from engine.models.slow_ar import SlowAR
from engine.serving.prefix_cache import PrefixCache

# Prompts go through in pieces that begin at multiples of this, whatever was reused and whoever speaks meanwhile: the
# same prompt is always computed in the same shapes, so it gives the same keys and values to the last bit.
PIECE = 128


@dataclass(frozen=True)
class Prompt:
    """What is to be continued.

    columns: int64 `[K + 1, T]`, T ≥ 2. shared: how many of them other requests may begin with as well (a voice).
    """

    columns: Tensor
    shared: int = 0


@dataclass
class _Held:
    """The prompt in a slot, on the host, and how many of its positions the cache has."""

    prompt: Prompt
    filled: int = 0


class Slots:
    """`count` places of `positions` positions each, for one model.

    rows: where they stand between two frames; row i is slot i.
    """

    def __init__(self, slow: SlowAR, count: int, positions: int, prefixes: PrefixCache) -> None:
        self._slow, self._prefixes = slow, prefixes
        self.count, self._codebooks = count, slow.dual.num_codebooks
        self.device = slow.norm.weight.device
        # The last position is where rows that nobody speaks in may write.
        self.positions = min(positions, slow.config.max_seq_len) - 1
        self.cache = slow.new_cache(count, self.positions + 1)
        self.rows = DecodeState.idle(count, self._codebooks, self.device)
        self._nothing = Prompt(torch.zeros(self._codebooks + 1, 0, dtype=torch.long))
        self._held = [_Held(self._nothing) for _ in range(count)]
        # What the host must know of `rows` without asking the device.
        self._at, self._top_k = [0] * count, [1] * count

    def at(self, slot: int) -> int:
        """The position that the slot's next frame takes."""
        return self._at[slot]

    def top_k(self, slot: int) -> int:
        """The likeliest values that the slot's draws choose among."""
        return self._top_k[slot]

    def moved(self, slot: int) -> None:
        """A frame of the slot has been started."""
        self._at[slot] += 1

    def begin(self, slot: int, prompt: Prompt, options: SamplingOptions, key: int) -> int:
        """Give a slot a prompt, and the noise of `key` (a signed 64-bit number). Returns the positions reused.

        Raises ValueError for a prompt that the slot cannot hold.
        """
        length = prompt.columns.shape[1]
        if not 2 <= length <= self.positions:
            raise ValueError(f"a prompt of {length} positions for slots of {self.positions}")
        reused = self._reuse(slot, prompt)
        self._held[slot] = _Held(prompt, reused)
        self._at[slot], self._top_k[slot] = length - 1, options.top_k
        row = DecodeState.idle(1, self._codebooks, torch.device("cpu"))
        row.column[0], row.position[0], row.key[0] = prompt.columns[:, -1], length - 1, key
        row.temperature[0], row.top_p[0], row.top_k[0] = options.temperature, options.top_p, options.top_k
        for field in fields(DecodeState):
            getattr(self.rows, field.name)[slot] = getattr(row, field.name)[0]
        return reused

    def prefill(self, slot: int) -> bool:
        """One piece of the slot's prompt goes in. Returns whether it is ready to speak."""
        held = self._held[slot]
        columns = held.prompt.columns
        last = columns.shape[1] - 1  # the last column is the input of the first frame
        if held.filled < last:
            end = min(held.filled // PIECE * PIECE + PIECE, last)
            piece = columns[None, :, held.filled : end].to(self.device, non_blocking=True)
            self._slow.run(self._slow.embed(piece), ContiguousView(self.cache, held.filled, slot))
            held.filled = end
            if end == _whole_pieces(held.prompt.shared):
                self._prefixes.keep(columns[:, :end], self.cache.copy_out(slot, end))
        return held.filled == last

    def forget(self, columns: Tensor, free: Iterable[int]) -> None:
        """Drop the keys and values of prompts that begin with `columns` `[K + 1, T]`, from the cache of prefixes and
        from these slots, in which nothing is spoken."""
        shared = _whole_pieces(columns.shape[1])
        self._prefixes.drop(columns[:, :shared])
        for slot in free:
            if self._held[slot].filled and self._begins_with(slot, columns):
                self.cache.clear(slot)
                self._held[slot] = _Held(self._nothing)

    def _begins_with(self, slot: int, columns: Tensor) -> bool:
        held = self._held[slot].prompt.columns
        return torch.equal(held[:, : columns.shape[1]], columns)

    def _reuse(self, slot: int, prompt: Prompt) -> int:
        """Put into the slot what is known of the prompt's beginning, in whole pieces; how many positions."""
        own = _whole_pieces(self._in_common(slot, prompt.columns))
        shared = _whole_pieces(min(prompt.shared, prompt.columns.shape[1] - 1))
        if own >= shared:
            return own
        kept = self._prefixes.find(prompt.columns[:, :shared])
        if kept is None:
            return own
        self.cache.copy_in(slot, kept)
        return shared

    def _in_common(self, slot: int, columns: Tensor) -> int:
        """How many positions of its last prompt the slot shares with another's beginning.

        What was spoken after that prompt does not count: it was computed frame by frame, and would differ in the last
        bits from what a slot without it computes.
        """
        held = self._held[slot]
        most = min(held.filled, columns.shape[1] - 1)
        same = (held.prompt.columns[:, :most] == columns[:, :most]).all(0)
        return int(same.long().cumprod(0).sum())


def _whole_pieces(positions: int) -> int:
    return positions // PIECE * PIECE
