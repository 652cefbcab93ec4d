"""KV-cache slots: the prompt, the keys and values and the decoding state of each request that has a slot.

For use by one thread.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import first_line
from engine.models.frame_step import DecodeState
from engine.models.kv_cache import ContiguousView, PackedView, UnpaddedRowsView
from engine.models.prompt import Prompt
from engine.models.sampling import SamplingOptions
from engine.models.stacks import SlowStack
from engine.models.transfer import pinned, to_device
from engine.serving.runner.graphs import GraphCapture
from engine.serving.runner.prefill_graphs import PrefillGraphs
from engine.serving.runner.prefix_cache import PrefixCache

log = logging.getLogger(__name__)

# Positions of a prefill chunk, and of one step over all prompts, on a CPU and on GPUs. Chunks end at multiples of it
# and with the shared prefix; if `batch_invariant`, also before and after generated columns, regardless of what was
# reused and of other slots. A prompt is then always computed in the same shapes, and its keys and values are
# bit-identical.
PREFILL_CHUNK, GPU_PREFILL_CHUNK = 128, 512
# Sizes that the positions of a step are padded to on GPUs.
PADDED_SIZES = (16, 32, 64, 128, 256, GPU_PREFILL_CHUNK)
# Prompts of a step that graphs compute one after the other. More are computed side by side, without a graph: each graph
# reads all weights, which takes 2 to 3 ms on an H200; without one, Python starts the kernels for 45 ms.
_REPLAYED_PROMPTS = 8
# Generated columns that are recomputed in one step: they take about as long as a chunk.
_GENERATED_CHUNK = 16


@dataclass(frozen=True)
class PrefillChunk:
    """The next positions of a slot's prompt, from `start` to `end`.

    one_by_one: whether each is computed as a row of its own, as generated columns are.
    """

    slot: int
    start: int
    end: int
    one_by_one: bool = False

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass
class _SlotPrompt:
    """The prompt in a slot, on the host, and how many of its positions are in the cache."""

    prompt: Prompt
    filled: int = 0


class SlotPool:
    """`count` slots of `positions` positions each, for one model.

    state: decoding state between two frames; row i is slot i. chunk_size: maximum number of positions of a prefill
    step. prefills_alone: whether each prompt is computed alone, so that its keys and values do not depend on others.
    """

    def __init__(
        self,
        slow: SlowStack,
        count: int,
        positions: int,
        prefixes: PrefixCache,
        *,
        pads_prefill: bool = False,
        batch_invariant: bool = False,
        capture: GraphCapture | None = None,
        clears: bool = False,
    ) -> None:
        """
        pads_prefill: whether the positions of a step are padded to few sizes, for which a GPU's libraries have plans.
        capture: captures graphs of padded prompts; None for none.
        batch_invariant: whether a request's codes do not depend on other requests: generated columns that are no longer
            cached are then recomputed one by one, as when they were spoken.
        clears: whether a slot is cleared behind what a request reuses, for steps that read all of it under a mask: a
            NaN of an earlier request would spoil this one. To clear what each step reads would take longer.
        """
        self._slow, self._prefixes = slow, prefixes
        self._pads_prefill, self._batch_invariant, self._clears = pads_prefill, batch_invariant, clears
        self.chunk_size = GPU_PREFILL_CHUNK if pads_prefill else PREFILL_CHUNK
        self.prefills_alone = batch_invariant or not pads_prefill
        self.count = count
        self.device = slow.norm.weight.device
        # Inactive rows of a static step write to the last position, so no request may use it.
        self.positions = min(positions, slow.config.max_seq_len) - 1
        self.cache = slow.new_cache(count, self.positions + 1)
        self.prefill_graphs = PrefillGraphs(slow, self.cache, capture)
        self.state = DecodeState.idle(count, slow, self.device)
        self._no_prompt = Prompt(torch.zeros(slow.column_rows, 0, dtype=torch.long))
        self._prompts = [_SlotPrompt(self._no_prompt) for _ in range(count)]
        # Host copies of values in `state`, so that the host never waits for the device.
        self._next_position, self._top_k = [0] * count, [1] * count

    def next_position(self, slot: int) -> int:
        """Return the position that the slot's next frame takes."""
        return self._next_position[slot]

    def top_k(self, slot: int) -> int:
        """Return the slot's top-k sampling option."""
        return self._top_k[slot]

    def advance(self, slot: int) -> None:
        """Move the slot to its next position, after its frame has been started."""
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
        if self._clears:
            self.cache.clear(slot, reused)
        self._next_position[slot], self._top_k[slot] = length - 1, options.top_k
        row = DecodeState.idle(1, self._slow, torch.device("cpu"))
        row.column[0], row.position[0], row.key[0] = prompt.columns[:, -1], length - 1, key
        row.temperature[0], row.top_p[0], row.top_k[0] = options.temperature, options.top_p, options.top_k
        for field in fields(DecodeState):
            value = pinned(getattr(row, field.name)[0], self.device)
            getattr(self.state, field.name)[slot].copy_(value, non_blocking=True)  # frames may be running
        return reused

    def append_generated(self, slot: int, codes: Tensor) -> None:
        """Record that the slot has spoken all of `codes` `[K, T]`: a prompt that continues from there reuses them."""
        held = self._prompts[slot].prompt
        if held.independent:
            return
        columns = torch.cat((held.columns, self._slow.next_column(codes.T).T), dim=1)
        ranges = (*held.generated_ranges, (held.columns.shape[1] - 1, columns.shape[1]))
        self._prompts[slot] = _SlotPrompt(replace(held, columns=columns, generated_ranges=ranges), columns.shape[1])

    def stash(self, slot: int) -> bytes | None:
        """Cache an open request's spoken turns before its slot goes to another one. Only if `batch_invariant`.

        Returns: the key for `drop_stash`; None when nothing was cached.
        """
        held = self._prompts[slot]
        if (
            self._batch_invariant
            and held.prompt.generated_ranges
            and (end := held.prompt.generated_ranges[-1][1]) <= held.filled
        ):
            return self._prefixes.stash(held.prompt, self.cache.copy_out(slot, end))
        return None

    def drop_stash(self, key: bytes) -> None:
        """Drop spoken turns that `stash` has cached."""
        self._prefixes.drop_stash(key)

    def next_chunk(self, slot: int) -> PrefillChunk:
        """Return the next positions of the slot's prompt to compute, at most `chunk_size`; none when it is complete."""
        held = self._prompts[slot]
        start, last = held.filled, held.prompt.columns.shape[1] - 1  # the last is the input of the first frame
        if start >= last:
            return PrefillChunk(slot, start, start)
        return PrefillChunk(slot, start, *self._chunk(held.prompt, start))

    def prefill_cost(self, chunk: PrefillChunk) -> int:
        """Return what a chunk takes of a step's `chunk_size`, in positions; 0 if it is empty."""
        if chunk.one_by_one:
            return self.chunk_size
        if chunk.length and self.prefill_graphs.has(chunk.start, chunk.length):
            return max(chunk.length, self.chunk_size // _REPLAYED_PROMPTS)
        return chunk.length

    def prefill(self, chunks: Sequence[PrefillChunk]) -> list[int]:
        """Compute the next chunks of these slots' prompts. Returns the slots whose prompts are complete."""
        read = [chunk for chunk in chunks if chunk.length and not chunk.one_by_one]
        for part in [[chunk] for chunk in read] if self.prefills_alone else [read]:
            if part:
                self._compute(part)
        for chunk in chunks:
            if chunk.one_by_one:
                self._recompute_one_by_one(chunk)
            held = self._prompts[chunk.slot]
            held.filled = chunk.end
            if chunk.length and chunk.end == held.prompt.shared:
                self._keep_prefix(chunk)
        return [chunk.slot for chunk in chunks if self.next_chunk(chunk.slot).length == 0]

    def _keep_prefix(self, chunk: PrefillChunk) -> None:
        """Cache the keys and values of the shared prefix that ends with this chunk."""
        columns = self._prompts[chunk.slot].prompt.columns[:, : chunk.end]
        try:
            self._prefixes.put(columns, self.cache.copy_out(chunk.slot, chunk.end))
        except Exception as error:  # such as out of memory: the prompt is complete all the same
            log.warning("A prompt's keys and values could not be kept: %s", first_line(error))

    def _compute(self, chunks: Sequence[PrefillChunk]) -> None:
        """Compute chunks: by their graphs one after the other, or in one run side by side."""
        embedded = []
        for chunk in chunks:
            prompt = self._prompts[chunk.slot].prompt
            embedded.append(self._slow.embed_prompt(prompt.columns[None, :, chunk.start : chunk.end], prompt.embedding))
        if not self._pads_prefill:
            (chunk,), (x,) = chunks, embedded
            self._slow.run(x, ContiguousView(self.cache, chunk.start, chunk.slot))
            return
        if len(chunks) <= _REPLAYED_PROMPTS and all(
            self.prefill_graphs.has(chunk.start, chunk.length) for chunk in chunks
        ):
            for chunk, x in zip(chunks, embedded, strict=True):
                self.prefill_graphs.replay(chunk.slot, chunk.start, x)
            return
        x = torch.cat(embedded, dim=1)
        size = next((size for size in PADDED_SIZES if x.shape[1] <= size), x.shape[1])
        parts = [(chunk.slot, chunk.start, chunk.length) for chunk in chunks]
        self._slow.run(F.pad(x, (0, 0, 0, size - x.shape[1])), PackedView(self.cache, parts))

    def _recompute_one_by_one(self, chunk: PrefillChunk) -> None:
        """Compute generated columns as their frames did, each as a separate row."""
        generated = self._prompts[chunk.slot].prompt.columns[:, chunk.start : chunk.end]
        columns = to_device(generated.T[:, :, None], self.device)
        # In one batch if rows do not affect each other: each row attends after earlier ones have written theirs.
        rows = len(columns) if self._slow.is_batch_invariant else 1
        for at in range(0, len(columns), rows):
            positions = range(chunk.start + at, chunk.start + min(at + rows, len(columns)))
            view = UnpaddedRowsView(self.cache, [chunk.slot] * len(positions), positions)
            self._slow.run(self._slow.embed(columns[at : at + rows]), view)

    def has_prefix(self, prefix: Prompt) -> bool:
        """Return whether the keys and values of `prefix`, all of it shared, are cached; they then are on the device."""
        return self._prefixes.get(prefix.columns) is not None

    def forget(self, prefix: Prompt, free: Iterable[int]) -> None:
        """Drop the keys and values of prompts that begin with `prefix`, all of it shared, from the prefix cache and
        from the unused slots `free`."""
        self._prefixes.drop(prefix.columns[:, : prefix.shared])
        slots = [slot for slot in free if self._prompts[slot].filled and self._begins_with(slot, prefix.columns)]
        for slot in slots:
            self._prompts[slot] = _SlotPrompt(self._no_prompt)  # first: it is not reused even if clearing fails
        self.prefill_graphs.clear()
        for slot in slots:
            self.cache.clear(slot)

    def _begins_with(self, slot: int, columns: Tensor) -> bool:
        held = self._prompts[slot].prompt.columns
        return torch.equal(held[:, : columns.shape[1]], columns)

    def _reuse(self, slot: int, prompt: Prompt) -> int:
        """Fill the slot with the cached beginning of the prompt, in whole chunks of its prefill. Returns its length."""
        shared, own = min(prompt.shared, prompt.columns.shape[1] - 1), self._reusable_length(slot, prompt)
        if self._batch_invariant and prompt.generated_ranges and own < prompt.generated_ranges[-1][1]:
            stashed = self._prefixes.unstash(prompt)
            if stashed is not None:
                self.cache.copy_in(slot, stashed)
                return prompt.generated_ranges[-1][1]
        if own >= shared:
            return own
        prefix = self._prefixes.get(prompt.columns[:, :shared])
        if prefix is None:
            return own
        self.cache.copy_in(slot, prefix)
        return shared

    def _reusable_length(self, slot: int, prompt: Prompt) -> int:
        """Return the length of the prompt's beginning that the slot holds.

        If `batch_invariant`, only what was computed in the same chunks counts.
        """
        held, common, reused = self._prompts[slot].prompt, self._common_prefix(slot, prompt.columns), 0
        if not self._batch_invariant:
            return common
        while reused < common:
            end, one_by_one = self._chunk(prompt, reused)
            other, also_one_by_one = self._chunk(held, reused)
            if one_by_one != also_one_by_one:
                break
            if one_by_one:  # each column is its own chunk
                end = other = min(end, other, common)
            if end != other or end > common:
                break
            reused = end
        return reused

    def _chunk(self, prompt: Prompt, start: int) -> tuple[int, bool]:
        """Return the end of the chunk that begins at `start`, and whether it is of columns that are recomputed.

        A chunk ends at the next multiple of `chunk_size`, with the shared prefix or with the prompt; if
        `batch_invariant`, also before generated columns, which are recomputed.
        """
        end = min(start // self.chunk_size * self.chunk_size + self.chunk_size, prompt.columns.shape[1] - 1)
        if start < prompt.shared:
            return min(end, prompt.shared), False
        recomputed = prompt.generated_ranges if self._batch_invariant else ()
        first, last = next((each for each in recomputed if start < each[1]), (end, end))
        if start < first:
            return min(end, first), False
        return min(last, start + _GENERATED_CHUNK), True

    def _common_prefix(self, slot: int, columns: Tensor) -> int:
        """Return the length of the common prefix of the slot's columns and `columns`, without the last one."""
        held = self._prompts[slot]
        longest = min(held.filled, columns.shape[1] - 1)
        other = (held.prompt.columns.numpy()[:, :longest] != columns.numpy()[:, :longest]).any(axis=0)
        return int(other.argmax()) if other.any() else longest
