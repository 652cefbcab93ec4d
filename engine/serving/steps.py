"""One frame for some of the slots: exactly as many rows as speak, or in fixed shapes that a CUDA graph can repeat."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from engine.errors import first_line
from engine.models.frame_step import DecodeState, FrameStep
from engine.models.kv_cache import ExactRowsView, StaticRowsView
from engine.models.sampling import MAX_TOP_K, RowOptions
from engine.serving.graphs import Recorder, Replay
from engine.serving.slots import Slots
from engine.serving.torch_script import TracedRows

log = logging.getLogger(__name__)

SHORTEST_SPAN = 256
FEWEST_CANDIDATES = 32

# What is recorded: the whole frame, the Fast AR alone, or nothing.
GraphMode = Literal["frame", "fast", "off"]
Key = tuple[int, int]


class Recordings:
    """Functions recorded under keys.

    When one cannot be recorded, that is said once, in the log and in `state`, and nothing is recorded any more.
    """

    def __init__(self, recorder: Recorder | None, name: str) -> None:
        self._recorder = recorder
        self._replays: dict[Key, Replay] = {}
        self.state = "off" if recorder is None else name

    def get(self, key: Key) -> Replay | None:
        """The recording, where there is one."""
        return self._replays.get(key)

    def lacks(self, key: Key) -> bool:
        """Whether it could be recorded and is not."""
        return self._recorder is not None and key not in self._replays

    def record(self, key: Key, function: Callable[..., Tensor], *inputs: Tensor) -> None:
        """Record `function(*inputs)`."""
        assert self._recorder is not None
        try:
            self._replays[key] = self._recorder.record(function, *inputs)
        except Exception as error:  # a tracer raises all kinds
            log.warning("Speaking without recorded steps, more slowly: %s", error)
            self._recorder = None
            self.state = f"off: they could not be recorded ({first_line(error)})"


class ExactSteps:
    """Each row reads the positions that it has in use and no others. Only the Fast AR's shapes stay the same.

    With a recorder the Fast AR is recorded for every number of rows on a CPU, and for powers of two on a GPU, ahead
    or when it is first needed.
    """

    def __init__(self, frame: FrameStep, slots: Slots, recorder: Recorder | None) -> None:
        self._frame, self._slots = frame, slots
        self._recordings = Recordings(recorder, "fast")
        self._inputs: dict[Key, tuple[Tensor, ...]] = {}  # where a recorded Fast AR reads
        # A CPU's time grows with the rows, a GPU's hardly.
        every = list(range(1, slots.count + 1))
        self._batches = every if slots.device.type == "cpu" else _powers(1, slots.count)

    @property
    def graph_state(self) -> str:
        return self._recordings.state

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """A frame of these slots: int64 `[rows, K + 1]`, semantic draws and codes, and which row is whose."""
        index = torch.tensor(slots, device=self._slots.device)
        rows = self._slots.rows.take(index)
        positions = [self._slots.at(slot) for slot in slots]
        candidates = _at_least(_powers(FEWEST_CANDIDATES, MAX_TOP_K), max(self._slots.top_k(slot) for slot in slots))
        noise = self._frame.noise(rows, candidates)
        semantic, vector = self._frame.semantic(rows, ExactRowsView(self._slots.cache, slots, positions), noise)
        codes = self._codes(rows, vector, semantic, noise)
        moved = self._frame.next_state(rows, semantic, codes)
        for name in DecodeState.MOVING:
            getattr(self._slots.rows, name)[index] = getattr(moved, name)
        return torch.cat((semantic[:, None], codes), dim=1), range(len(slots))

    def record_next(self) -> bool:
        """Record what is not yet recorded of the usual draws, one at a time; False when nothing is left."""
        return any(self._record((count, FEWEST_CANDIDATES)) for count in self._batches)

    def _record(self, key: Key) -> bool:
        """Whether this is one to record, and was not there yet."""
        wanted = key[1] == FEWEST_CANDIDATES and self._recordings.lacks(key)
        if wanted:
            self._inputs[key] = self._inputs_for(*key)
            self._recordings.record(key, self._fast, *self._inputs[key])
        return wanted

    def _codes(self, rows: DecodeState, vector: Tensor, semantic: Tensor, noise: Tensor) -> Tensor:
        options, count = rows.options, len(semantic)
        key = _at_least(self._batches, count), noise.shape[2]
        self._record(key)
        replay = self._recordings.get(key)
        if replay is None:
            return self._frame.codes(options, vector, semantic, noise)
        now = (options.temperature, options.top_p, options.top_k, vector, semantic, noise)
        for held, value in zip(self._inputs[key], now, strict=True):
            held[:count] = value
        return replay()[:count]

    def _fast(
        self, temperature: Tensor, top_p: Tensor, top_k: Tensor, vector: Tensor, semantic: Tensor, noise: Tensor
    ) -> Tensor:
        return self._frame.codes(RowOptions(temperature, top_p, top_k), vector, semantic, noise)

    def _inputs_for(self, count: int, candidates: int) -> tuple[Tensor, ...]:
        idle = DecodeState.idle(count, self._frame.slow.dual.num_codebooks, self._slots.device)
        weight = self._frame.slow.norm.weight
        return (
            idle.temperature,
            idle.top_p,
            idle.top_k,
            weight.new_zeros(count, weight.shape[0]),
            idle.frame,
            torch.ones(count, self._frame.draws, candidates, device=self._slots.device),
        )


class TracedSteps:
    """`ExactSteps` recorded as a whole, for every number of rows, on a CPU."""

    def __init__(self, frame: FrameStep, slots: Slots, recorder: Recorder) -> None:
        self._frame, self._slots = frame, slots
        self._recordings = Recordings(recorder, "frame")
        self._index = [
            torch.arange(count) for count in range(slots.count + 1)
        ]  # where a recorded step reads who speaks
        self._exact = ExactSteps(frame, slots, None)

    @property
    def graph_state(self) -> str:
        return self._recordings.state

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """As `ExactSteps.run`."""
        replay = self._recordings.get((len(slots), FEWEST_CANDIDATES))
        if replay is None or any(self._slots.top_k(slot) > FEWEST_CANDIDATES for slot in slots):
            return self._exact.run(slots)
        self._index[len(slots)].copy_(torch.tensor(slots))
        return replay(), range(len(slots))

    def record_next(self) -> bool:
        """Record the usual draws of one more number of rows; False when nothing is left."""
        return any(self._record((count, FEWEST_CANDIDATES)) for count in range(1, self._slots.count + 1))

    def _record(self, key: Key) -> bool:
        """Whether this was not there yet."""
        wanted = self._recordings.lacks(key)
        if wanted:
            moving = [getattr(self._slots.rows, name) for name in DecodeState.MOVING]
            before = [tensor.clone() for tensor in moving]
            rows = (getattr(self._slots.rows, field.name) for field in fields(DecodeState))
            self._recordings.record(key, self._step, self._index[key[0]], self._slots.cache.buffer, *rows)
            for tensor, value in zip(moving, before, strict=True):  # while it is recorded it runs
                tensor.copy_(value)
        return wanted

    def _step(self, index: Tensor, buffer: Tensor, *state: Tensor) -> Tensor:
        standing = DecodeState(*state)
        rows = standing.take(index)
        noise = self._frame.noise(rows, FEWEST_CANDIDATES)
        semantic, vector = self._frame.semantic(rows, TracedRows(buffer, index, rows.position), noise)
        codes = self._frame.codes(rows.options, vector, semantic, noise)
        moved = self._frame.next_state(rows, semantic, codes)
        for name in DecodeState.MOVING:
            getattr(standing, name)[index] = getattr(moved, name)
        return torch.cat((semantic[:, None], codes), dim=1)


class StaticSteps:
    """The first rows, a power of two of them, all reading the same span of positions, masked: a GPU's way.

    With a recorder the whole frame is recorded for every number of rows and every span, ahead or when it is first
    needed: repeated, it is several times faster.
    """

    def __init__(self, frame: FrameStep, slots: Slots, recorder: Recorder | None) -> None:
        self._frame, self._slots = frame, slots
        self._recordings = Recordings(recorder, "frame")
        self._batches, self._spans = _powers(1, slots.count), _powers(SHORTEST_SPAN, slots.positions + 1)
        self._active = torch.zeros(slots.count, 1, dtype=torch.bool, device=slots.device)
        self._speaking: tuple[int, ...] = ()

    @property
    def graph_state(self) -> str:
        return self._recordings.state

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """As `ExactSteps.run`."""
        longest = max(self._slots.at(slot) for slot in slots) + 1
        key = _at_least(self._batches, max(slots) + 1), _at_least(self._spans, longest)
        self._record(key)
        self._activate(slots)
        replay = self._recordings.get(key)
        return replay() if replay else self._step(*key), slots

    def record_next(self) -> bool:
        """Record one of all sizes, the largest first: the others fit into its memory. False when none is left."""
        return any(map(self._record, product(reversed(self._batches), reversed(self._spans))))

    def _record(self, key: Key) -> bool:
        """Whether this was not there yet."""
        wanted = self._recordings.lacks(key)
        if wanted:
            self._activate(())  # while it is recorded it runs, and nobody's row may move
            self._recordings.record(key, partial(self._step, *key))
        return wanted

    def _step(self, rows: int, span: int) -> Tensor:
        state, active = self._slots.rows.first(rows), self._active[:rows]
        nowhere = self._slots.positions
        position = torch.where(active[:, 0], state.position, nowhere)
        noise = self._frame.noise(state, MAX_TOP_K)
        semantic, vector = self._frame.semantic(state, StaticRowsView(self._slots.cache, position, span), noise)
        codes = self._frame.codes(state.options, vector, semantic, noise)
        moved = self._frame.next_state(state, semantic, codes)
        for name in DecodeState.MOVING:
            before, after = getattr(state, name), getattr(moved, name)
            before.copy_(torch.where(active if before.dim() == 2 else active[:, 0], after, before))
        return torch.cat((semantic[:, None], codes), dim=1)

    def _activate(self, slots: Sequence[int]) -> None:
        if self._speaking != tuple(slots):
            self._speaking = tuple(slots)
            active = torch.zeros(self._active.shape, dtype=torch.bool)
            active[list(slots)] = True
            self._active.copy_(active, non_blocking=True)


def _powers(least: int, most: int) -> list[int]:
    """`least`, its doubles below `most`, and `most` itself."""
    found = []
    while least < most:
        found.append(least)
        least *= 2
    return [*found, most]


def _at_least(sizes: Sequence[int], wanted: int) -> int:
    return next(size for size in sizes if size >= wanted)
