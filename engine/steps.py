"""One frame for some of the slots: exactly as many rows as speak, or in fixed shapes that a CUDA graph can repeat."""

import logging
from collections.abc import Sequence
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from engine.cuda_graph import Function, Recorder
from engine.frame import Frame, Rows
from engine.models.kv_cache import ExactRows, StaticRows
from engine.sampling import MAX_TOP_K
from engine.slots import Slots

log = logging.getLogger(__name__)

SHORTEST_SPAN = 256

GraphMode = Literal["frame", "fast", "off"]


class ExactSteps:
    """Each row reads the positions that it has in use and no others. Shapes change from frame to frame."""

    graph_state = "off"

    def __init__(self, frame: Frame, slots: Slots) -> None:
        self._frame, self._slots = frame, slots

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """A frame of these slots: int64 `[rows, K + 1]`, semantic draws and codes, and which row is whose."""
        index = torch.tensor(slots, device=self._slots.device)
        rows = self._slots.rows.take(index)
        past = ExactRows(self._slots.cache, slots, rows.position)
        noise = self._frame.noise(rows, int(rows.top_k.max()))
        semantic, vector = self._frame.semantic(rows, past, noise)
        codes = self._frame.codes(rows, vector, semantic, noise)
        moved = self._frame.next_rows(rows, semantic, codes)
        for name in Rows.MOVING:
            getattr(self._slots.rows, name)[index] = getattr(moved, name)
        return torch.cat((semantic[:, None], codes), dim=1), range(len(slots))

    def record_next(self) -> bool:
        return False


class StaticSteps:
    """The first rows, a power of two of them, all reading the same span of positions, masked.

    With a recorder, what `mode` says is recorded for every number of rows and every span (or for every number of rows,
    where only the Fast AR is), and repeated from then on. When that fails, once, it is said in `graph_state` and
    everything runs as it is.
    """

    def __init__(self, frame: Frame, slots: Slots, recorder: Recorder | None, mode: GraphMode) -> None:
        self._frame, self._slots = frame, slots
        self._recorder = None if mode == "off" else recorder
        self._mode = mode
        self.graph_state: str = "off" if self._recorder is None else mode
        count, device = slots.count, slots.device
        self._active = torch.zeros(count, 1, dtype=torch.bool, device=device)
        self._speaking: tuple[int, ...] = ()
        weight = frame.slow.norm.weight
        # Where the eager Slow AR leaves what the recorded Fast AR reads.
        self._vector = torch.zeros(count, weight.shape[0], dtype=weight.dtype, device=device)
        self._semantic = torch.zeros(count, dtype=torch.long, device=device)
        self._noise = torch.ones(count, frame.draws, MAX_TOP_K, device=device)
        self._replays: dict[tuple[int, int], Function] = {}
        sizes = product(reversed(_powers(1, count)), reversed(_powers(SHORTEST_SPAN, slots.positions + 1)))
        wanted = sizes if mode == "frame" else ((rows, 0) for rows in reversed(_powers(1, count)))
        self._wanted = list(wanted) if self._recorder else []

    def run(self, slots: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
        """As `ExactSteps.run`."""
        rows = _at_least(_powers(1, self._slots.count), max(slots) + 1)
        longest = max(self._slots.at(slot) for slot in slots) + 1
        span = _at_least(_powers(SHORTEST_SPAN, self._slots.positions + 1), longest)
        recorded = self._recorded(rows, span)
        self._activate(slots)
        return recorded() if recorded else self._step(rows, span), slots

    def record_next(self) -> bool:
        """Record what is not yet recorded, one at a time and the largest first; whether more is left."""
        self._wanted = [key for key in self._wanted if key not in self._replays]
        if self._wanted:
            self._record(*self._wanted[0])
        return bool(self._wanted)

    def _recorded(self, rows: int, span: int) -> Function | None:
        if self._recorder is None or self._mode != "frame":
            return None
        if (rows, span) not in self._replays:
            self._record(rows, span)
        return self._replays.get((rows, span))

    def _record(self, rows: int, span: int) -> None:
        assert self._recorder is not None
        if self._mode == "frame":
            self._activate(())  # while it is recorded it runs, and nobody's row may move
        work = (lambda: self._step(rows, span)) if self._mode == "frame" else (lambda: self._fast(rows))
        try:
            self._replays[rows, span] = self._recorder.record(work)
        except RuntimeError as error:
            log.warning("Speaking without CUDA graphs, more slowly: %s", error)
            self._recorder, self._wanted, self._replays = None, [], {}
            self.graph_state = f"off: they could not be recorded ({str(error).splitlines()[0]})"

    def _step(self, rows: int, span: int) -> Tensor:
        state, active = self._slots.rows.first(rows), self._active[:rows]
        nowhere = self._slots.positions
        position = torch.where(active[:, 0], state.position, nowhere)
        noise = self._frame.noise(state, MAX_TOP_K)
        semantic, vector = self._frame.semantic(state, StaticRows(self._slots.cache, position, span), noise)
        codes = self._codes(rows, vector, semantic, noise)
        moved = self._frame.next_rows(state, semantic, codes)
        for name in Rows.MOVING:
            before, after = getattr(state, name), getattr(moved, name)
            before.copy_(torch.where(active if before.dim() == 2 else active[:, 0], after, before))
        return torch.cat((semantic[:, None], codes), dim=1)

    def _codes(self, rows: int, vector: Tensor, semantic: Tensor, noise: Tensor) -> Tensor:
        if self._recorder is None or self._mode != "fast":
            return self._frame.codes(self._slots.rows.first(rows), vector, semantic, noise)
        self._vector[:rows], self._semantic[:rows], self._noise[:rows] = vector, semantic, noise
        if (rows, 0) not in self._replays:
            self._record(rows, 0)
        replay = self._replays.get((rows, 0))
        return replay() if replay else self._fast(rows)

    def _fast(self, rows: int) -> Tensor:
        state = self._slots.rows.first(rows)
        return self._frame.codes(state, self._vector[:rows], self._semantic[:rows], self._noise[:rows])

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
