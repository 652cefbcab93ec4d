"""KV-cache slots: the prompt, the keys and values and the decoding state of each request that has a slot.

For use by one thread.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.frame_step import DecodeState
from engine.models.kv_cache import ContiguousView
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.models.stacks import SlowStack
from engine.serving.runner.prefix_cache import PrefixCache

# Positions of a prefill chunk. Chunks end at multiples of it and with the shared prefix, whatever was reused and
# whatever other slots do: one prompt is always computed in the same shapes, so its keys and values are the same to the
# last bit.
PREFILL_CHUNK = 128
# Sizes that chunks are padded to on GPUs.
PADDED_SIZES = (16, 32, 64, PREFILL_CHUNK)


@dataclass
class _SlotPrompt:
    """The prompt in a slot, on the host, and how many of its positions are in the cache."""

    prompt: Prompt
    filled: int = 0


class SlotPool:
    """`count` slots of `positions` positions each, for one model.

    state: decoding state between two frames; row i is slot i.
    """

    def __init__(
        self, slow: SlowStack, count: int, positions: int, prefixes: PrefixCache, *, padded: bool = False
    ) -> None:
        """padded: whether chunks of a prompt are padded to few sizes, for which a GPU's libraries have plans."""
        self._slow, self._prefixes, self._padded = slow, prefixes, padded
        self.count = count
        self.device = slow.norm.weight.device
        # Inactive rows of a static step write to the last position, so no request may use it.
        self.positions = min(positions, slow.config.max_seq_len) - 1
        self.cache = slow.new_cache(count, self.positions + 1)
        self.state = DecodeState.idle(count, slow, self.device)
        self._no_prompt = Prompt(torch.zeros(slow.column_rows, 0, dtype=torch.long))
        self._prompts = [_SlotPrompt(self._no_prompt) for _ in range(count)]
        # Host copies of values in `state`, so that the host never waits for the device.
        self._next_position, self._top_k = [0] * count, [1] * count

    def next_position(self, slot: int) -> int:
        """The position that the slot's next frame takes."""
        return self._next_position[slot]

    def top_k(self, slot: int) -> int:
        """The slot's top-k sampling option."""
        return self._top_k[slot]

    def advance(self, slot: int) -> None:
        """Move the slot to its next position, after a frame of it has been started."""
        self._next_position[slot] += 1

    def begin(self, slot: int, prompt: Prompt, options: SamplingOptions, key: int) -> int:
        """Assign a prompt and a noise key (a signed 64-bit number) to a slot.

        Returns: the number of positions whose keys and values are reused.
        Raises ValueError for a prompt that does not fit the slot.
        """
        length = prompt.columns.shape[1]
        if not 2 <= length <= self.positions:
            raise ValueError(f"a prompt of {length} positions for slots of {self.positions}")
        reused = self._reuse(slot, prompt)
        self._prompts[slot] = _SlotPrompt(prompt, reused)
        self._next_position[slot], self._top_k[slot] = length - 1, options.top_k
        row = DecodeState.idle(1, self._slow, torch.device("cpu"))
        row.column[0], row.position[0], row.key[0] = prompt.columns[:, -1], length - 1, key
        if prompt.trailing is not None:
            row.trailing[0] = prompt.trailing[-1]
            row.trailing[0, : len(prompt.trailing)] = prompt.trailing
        row.temperature[0], row.top_p[0], row.top_k[0] = options.temperature, options.top_p, options.top_k
        for field in fields(DecodeState):
            getattr(self.state, field.name)[slot] = getattr(row, field.name)[0]
        return reused

    def prefill(self, slot: int) -> bool:
        """Compute one chunk of the slot's prompt. Returns whether the prompt is complete."""
        held = self._prompts[slot]
        columns = held.prompt.columns
        last = columns.shape[1] - 1  # the last column is the input of the first frame
        if held.filled < last:
            end = _chunk_end(held.prompt, held.filled)
            chunk = self._chunk(columns, held.filled, end).to(self.device, non_blocking=True)
            embedded = self._slow.embed(chunk, held.prompt.vector)
            self._slow.run(embedded, ContiguousView(self.cache, held.filled, slot))
            held.filled = end
            if end == held.prompt.shared:
                self._prefixes.put(columns[:, :end], self.cache.copy_out(slot, end))
        return held.filled == last

    def _chunk(self, columns: Tensor, start: int, end: int) -> Tensor:
        """The columns from `start` to `end`, `[1, rows, T]`, padded where there is room.

        The padding writes behind the prompt, where frames overwrite it before they attend to it.
        """
        chunk, room = columns[None, :, start:end], self.positions - start
        size = next((size for size in PADDED_SIZES if end - start <= size <= room), end - start)
        return F.pad(chunk, (0, size - (end - start))) if self._padded else chunk

    def forget(self, prefix: Prompt, free: Iterable[int]) -> None:
        """Drop the keys and values of prompts that begin with `prefix`, all of which is shared, from the prefix cache
        and from the slots `free`, which are not in use."""
        self._prefixes.drop(prefix.columns[:, : prefix.shared])
        for slot in free:
            if self._prompts[slot].filled and self._begins_with(slot, prefix.columns):
                self.cache.clear(slot)
                self._prompts[slot] = _SlotPrompt(self._no_prompt)

    def _begins_with(self, slot: int, columns: Tensor) -> bool:
        held = self._prompts[slot].prompt.columns
        return torch.equal(held[:, : columns.shape[1]], columns)

    def _reuse(self, slot: int, prompt: Prompt) -> int:
        """Fill the slot with the known beginning of the prompt, in the chunks of its prefill. Returns its length."""
        shared, own = min(prompt.shared, prompt.columns.shape[1] - 1), self._own(slot, prompt)
        if own >= shared:
            return own
        prefix = self._prefixes.get(prompt.columns[:, :shared])
        if prefix is None:
            return own
        self.cache.copy_in(slot, prefix)
        return shared

    def _own(self, slot: int, prompt: Prompt) -> int:
        """Length of the prompt's beginning that the slot holds, computed in the same chunks."""
        shared, common = prompt.shared, self._common_prefix(slot, prompt.columns)
        other = self._prompts[slot].prompt.shared
        if shared != other:  # chunks are the same up to where the first of them ends early
            return _whole_chunks(min(common, *(end for end in (shared, other) if end)))
        return max(_whole_chunks(common), shared if common >= shared else 0)

    def _common_prefix(self, slot: int, columns: Tensor) -> int:
        """Length of the common prefix of the slot's last prompt and `columns`.

        Frames generated after that prompt do not count: they were computed one by one, and differ in the last bits from
        what a prefill computes.
        """
        held = self._prompts[slot]
        longest = min(held.filled, columns.shape[1] - 1)
        same = (held.prompt.columns[:, :longest] == columns[:, :longest]).all(0)
        return int(same.long().cumprod(0).sum())


def _whole_chunks(positions: int) -> int:
    return positions // PREFILL_CHUNK * PREFILL_CHUNK


def _chunk_end(prompt: Prompt, start: int) -> int:
    """The end of the chunk that begins at `start`: the next multiple, the shared prefix's end, or the prompt's."""
    end = min(_whole_chunks(start) + PREFILL_CHUNK, prompt.columns.shape[1] - 1)
    return min(end, prompt.shared) if start < prompt.shared else end
