"""Ways to run one frame for some of the slots: eagerly, as a TorchScript trace, in the fixed shapes of CUDA graphs, or
one slot after the other."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from engine.models.frame_step import DecodeState, FrameStep
from engine.models.kv_cache import StaticRowsView, UnpaddedRowsView
from engine.models.sampling import MAX_TOP_K, RowOptions
from engine.models.transfer import to_device
from engine.serving.runner.graphs import CapturedGraphs, GraphCapture, GraphKey
from engine.serving.runner.slots import SlotPool
from engine.serving.runner.traces import TracedRowsView

SHORTEST_SPAN = 256
# Rows of the largest traced frame. PyTorch never frees a trace; the overhead of a frame without one is small beside
# the time of more rows.
MAX_TRACED_ROWS = 32

# What is captured: the whole frame, the Fast AR alone, or nothing.
GraphMode = Literal["frame", "fast", "off"]


class EagerStepRunner:
    """Runs as many rows as there are active slots; each row attends to exactly the positions in use.

    With a capture, the Fast AR, whose shapes are constant, is replayed from graphs: one for every number of rows on a
    CPU, for powers of two on a GPU, captured in advance or on first use.
    """

    def __init__(
        self, frame: FrameStep, slots: SlotPool, capture: GraphCapture | None, rows: int | None = None
    ) -> None:
        """rows: the most rows of a step; by default all slots."""
        self._frame, self._slots = frame, slots
        self.graphs = CapturedGraphs(capture, "fast")
        # The time of a step grows with its rows on a CPU, but hardly on a GPU.
        most = rows or slots.count
        self._batches = list(range(1, most + 1)) if slots.device.type == "cpu" else _doublings(1, most)
        # Input buffers of the captured Fast ARs, each of which reads the first rows.
        self._inputs = () if capture is None else self._input_buffers(most)

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """Run one frame for these slots.

        Returns: int64 `[rows, K + 1]`, the semantic draws and codes; and the row of each slot.
        """
        index = to_device(torch.tensor(slots), self._slots.device)
        rows = self._slots.state.take(index)
        positions = [self._slots.next_position(slot) for slot in slots]
        candidates = _candidates(self._frame, self._slots, slots)
        noise = self._frame.noise(rows, candidates)
        semantic, hidden = self._frame.semantic(rows, UnpaddedRowsView(self._slots.cache, slots, positions), noise)
        codes = self._codes(rows, hidden, semantic, noise)
        self._slots.state.put(index, self._frame.next_state(rows, semantic, codes))
        return torch.cat((semantic[:, None], codes), dim=1), range(len(slots))

    def capture_next(self) -> bool:
        """Capture one missing graph for the usual top-k options. Returns False when none is missing."""
        return any(self._capture((count, self._frame.candidates)) for count in self._batches) or self.graphs.retry()

    def _capture(self, key: GraphKey) -> bool:
        """Capture `key` if it is for the usual top-k options and has no graph. Returns whether it tried."""
        wanted = key[1] == self._frame.candidates and self.graphs.is_missing(key)
        if wanted:
            self.graphs.capture(key, self._fast, *(buffer[: key[0]] for buffer in self._inputs))
        return wanted

    def _codes(self, rows: DecodeState, hidden: Tensor, semantic: Tensor, noise: Tensor) -> Tensor:
        options, count = rows.options, len(semantic)
        key = _at_least(self._batches, count), noise.shape[2]
        self._capture(key)
        replay = self.graphs.get(key)
        if replay is None:
            return self._frame.codes(options, hidden, semantic, noise)
        values = (options.temperature, options.top_p, options.top_k, hidden, semantic, noise)
        for buffer, value in zip(self._inputs, values, strict=True):
            buffer[:count] = value
        return replay()[:count]

    def _fast(
        self, temperature: Tensor, top_p: Tensor, top_k: Tensor, hidden: Tensor, semantic: Tensor, noise: Tensor
    ) -> Tensor:
        return self._frame.codes(RowOptions(temperature, top_p, top_k), hidden, semantic, noise)

    def _input_buffers(self, count: int) -> tuple[Tensor, ...]:
        idle = DecodeState.idle(count, self._frame.slow, self._slots.device)
        weight, noise = self._frame.slow.norm.weight, (count, self._frame.draws, self._frame.candidates)
        return (
            idle.temperature,
            idle.top_p,
            idle.top_k,
            weight.new_zeros(count, weight.shape[0]),
            idle.frame,
            torch.ones(noise, dtype=torch.float32, device=self._slots.device),
        )


class TracedStepRunner:
    """Replays traces of whole frames on a CPU, one for every number of rows up to `MAX_TRACED_ROWS`; without a trace it
    runs eagerly."""

    def __init__(self, frame: FrameStep, slots: SlotPool, capture: GraphCapture) -> None:
        self._frame, self._slots = frame, slots
        self.graphs = CapturedGraphs(capture, "frame")
        # Input buffers of the traces by number of rows: the active slots.
        self._index = [torch.arange(count) for count in range(min(slots.count, MAX_TRACED_ROWS) + 1)]
        self._eager = EagerStepRunner(frame, slots, None)

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """As `EagerStepRunner.run`."""
        replay = self.graphs.get((len(slots), self._frame.candidates))
        if replay is None or any(self._slots.top_k(slot) > self._frame.candidates for slot in slots):
            return self._eager.run(slots)
        self._index[len(slots)].copy_(torch.tensor(slots))
        return replay(), range(len(slots))

    def capture_next(self) -> bool:
        """Trace the frame for one missing number of rows. Returns False when none is missing."""
        return any(self._capture((count, self._frame.candidates)) for count in range(1, len(self._index)))

    def _capture(self, key: GraphKey) -> bool:
        """Capture `key` if it is missing. Returns whether it tried."""
        missing = self.graphs.is_missing(key)
        if missing:
            moving = self._slots.state.mutable
            before = [tensor.clone() for tensor in moving]
            state = (getattr(self._slots.state, field.name) for field in fields(DecodeState))
            self.graphs.capture(key, self._step, self._index[key[0]], self._slots.cache.buffer, *state)
            for tensor, value in zip(moving, before, strict=True):  # the step runs while it is captured
                tensor.copy_(value)
        return missing

    def _step(self, index: Tensor, buffer: Tensor, *state: Tensor) -> Tensor:
        all_rows = DecodeState(*state)
        rows = all_rows.take(index)
        noise = self._frame.noise(rows, self._frame.candidates)
        semantic, hidden = self._frame.semantic(rows, TracedRowsView(buffer, index, rows.position), noise)
        codes = self._frame.codes(rows.options, hidden, semantic, noise)
        all_rows.put(index, self._frame.next_state(rows, semantic, codes))
        return torch.cat((semantic[:, None], codes), dim=1)


class StaticStepRunner:
    """Runs the first slots, a power of two of them, all attending to the same masked span of positions. For GPUs.

    With a capture, the whole frame is a graph for every number of rows, every span and every number of candidates,
    captured in advance or on first use; a replay is several times faster.
    """

    def __init__(self, frame: FrameStep, slots: SlotPool, capture: GraphCapture | None) -> None:
        self._frame, self._slots = frame, slots
        self.graphs = CapturedGraphs(capture, "frame")
        # Fused kernels attend to exact lengths in any span.
        shortest = SHORTEST_SPAN if frame.slow.step_backend is None else slots.positions + 1
        self._batches, self._spans = _doublings(1, slots.count), _doublings(shortest, slots.positions + 1)
        self._active = torch.zeros(slots.count, 1, dtype=torch.bool, device=slots.device)
        self._active_slots: tuple[int, ...] = ()

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """As `EagerStepRunner.run`."""
        longest = max(self._slots.next_position(slot) for slot in slots) + 1
        candidates = _candidates(self._frame, self._slots, slots)
        key = _at_least(self._batches, max(slots) + 1), _at_least(self._spans, longest), candidates
        self._capture(key)
        self._activate(slots)
        replay = self.graphs.get(key)
        return replay() if replay else self._step(*key), slots

    def capture_next(self) -> bool:
        """Capture one missing size for the usual top-k options, the largest first, so that the others fit into its
        memory. Returns False when none is missing."""
        sizes = product(reversed(self._batches), reversed(self._spans), [self._frame.candidates])
        return any(map(self._capture, sizes)) or self.graphs.retry()

    def _capture(self, key: GraphKey) -> bool:
        """Capture `key` if it is missing. Returns whether it tried."""
        missing = self.graphs.is_missing(key)
        if missing:
            self._activate(())  # the step runs while it is captured, and must change no row
            self.graphs.capture(key, partial(self._step, *key))
        return missing

    def _step(self, rows: int, span: int, candidates: int) -> Tensor:
        state, active = self._slots.state.first(rows), self._active[:rows]
        unused = self._slots.positions
        position = torch.where(active[:, 0], state.position, unused)
        noise = self._frame.noise(state, candidates)
        lengths = torch.where(active[:, 0], position + 1, 1)
        view = StaticRowsView(self._slots.cache, position, span, lengths)
        semantic, hidden = self._frame.semantic(state, view, noise)
        codes = self._frame.codes(state.options, hidden, semantic, noise)
        moved = self._frame.next_state(state, semantic, codes)
        for before, after in zip(state.mutable, moved.mutable, strict=True):
            before.copy_(torch.where(active if before.dim() == 2 else active[:, 0], after, before))
        return torch.cat((semantic[:, None], codes), dim=1)

    def _activate(self, slots: Sequence[int]) -> None:
        if self._active_slots != tuple(slots):
            self._active_slots = tuple(slots)
            active = torch.zeros(self._active.shape, dtype=torch.bool)
            active[list(slots)] = True
            self._active.copy_(active, non_blocking=True)


class SequentialStepRunner:
    """Runs one slot after the other, so that the codes of one do not depend on the others.

    On a GPU, products of one row and of several take different kernels, which round differently.
    """

    def __init__(self, frame: FrameStep, slots: SlotPool, capture: GraphCapture | None) -> None:
        self._eager = EagerStepRunner(frame, slots, capture, rows=1)
        self.graphs = self._eager.graphs

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """As `EagerStepRunner.run`."""
        return torch.cat([self._eager.run([slot])[0] for slot in slots]), range(len(slots))

    def capture_next(self) -> bool:
        return self._eager.capture_next()


def _candidates(frame: FrameStep, slots: SlotPool, active: Sequence[int]) -> int:
    """Return the number of candidates of each draw: the usual one, or the next of its doublings that suffices."""
    return _at_least(_doublings(frame.candidates, MAX_TOP_K), max(slots.top_k(slot) for slot in active))


def _doublings(least: int, most: int) -> list[int]:
    """Return `least`, its doublings below `most`, and `most` itself."""
    found = []
    while least < most:
        found.append(least)
        least *= 2
    return [*found, most]


def _at_least(sizes: Sequence[int], wanted: int) -> int:
    """Return the first of ascending sizes that is `wanted` or more."""
    return next(size for size in sizes if size >= wanted)
