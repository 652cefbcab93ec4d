"""Graphs that compute prompts: one for each padded number of positions and each span of attention. For GPUs.

They read keys and values of a fixed number of positions, masked; this is checked once against the plain way on the
model's own weights. Without a graph, Python starts about thirty kernels a layer one by one. For a short prompt, such as
the sentence after a known voice, that takes several times as long as the kernels.
"""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import first_line
from engine.models.agreement import TOLERANCE, prompt_difference
from engine.models.kv_cache import KVCache, StaticPromptView
from engine.models.stacks import SlowStack
from engine.models.transfer import to_device
from engine.serving.runner.graphs import CapturedGraphs, GraphCapture, Replay

# Few graphs, because each takes memory: padded numbers of positions, and positions of a slot that are read. A prompt
# that ends behind the last is computed without a graph.
SIZES = (32, 128, 512)
SPANS = (512, 1024)


class PrefillGraphs:
    """Replays graphs of the slow stack over one slot's next positions.

    Sizes without a graph yet, or whose capture failed, have none. Padding is written to the last position of the slot,
    which no request may use.
    """

    def __init__(self, slow: SlowStack, cache: KVCache, capture: GraphCapture | None) -> None:
        """capture: None for no graphs."""
        self._slow, self._cache = slow, cache
        self._graphs = CapturedGraphs(capture, "prompts")
        spans = [span for span in SPANS if span < cache.positions] or [cache.positions]
        self._keys = [(size, span) for size in SIZES for span in spans if size <= span]
        weight = slow.norm.weight
        self._x = weight.new_zeros(1, SIZES[-1] if self._keys and capture else 0, len(weight))
        self._slot, self._end = (torch.zeros(1, dtype=torch.long, device=weight.device) for _ in range(2))
        self._unused = cache.positions - 1
        self._positions = torch.full((self._x.shape[1],), self._unused, device=weight.device)
        self._disagreement: str | None = None  # empty once the check has passed

    @property
    def failure(self) -> str:
        """Why there are no graphs, or none of some sizes; empty if nothing has failed."""
        why = self._disagreement or self._graphs.failure
        return why and f"prompts without graphs: {why}"

    def capture_next(self) -> bool:
        """Check the view, or capture one missing graph, the largest first. Returns False when nothing is left."""
        missing = next((key for key in reversed(self._keys) if self._graphs.is_missing(key)), None)
        if self._disagreement:
            return False
        if missing is None:
            return self._graphs.retry()
        if self._disagreement is None:
            self._disagreement = self._check()
            return True
        self.clear()  # the function runs while it is captured, and must change no request
        self._graphs.capture(missing, partial(self._run, *missing))
        return True

    def clear(self) -> None:
        """Drop what the last prompt left in the buffers."""
        self._x.zero_()
        self._positions.fill_(self._unused)

    def has(self, start: int, length: int) -> bool:
        """Return whether there is a graph for `length` positions from `start` on."""
        return self._find(start, length) is not None

    def replay(self, slot: int, start: int, x: Tensor) -> None:
        """Compute embedded positions x `[1, T, D]` of a slot from `start` on, for which there is a graph."""
        length, device = x.shape[1], self._slot.device
        found = self._find(start, length)
        assert found is not None
        size, graph = found
        positions = F.pad(torch.arange(start, start + length), (0, size - length), value=self._unused)
        self._x[:, :length].copy_(x)
        self._x[:, length:size].zero_()
        self._positions[:size].copy_(to_device(positions, device))
        self._slot.copy_(to_device(torch.tensor([slot]), device))
        self._end.copy_(to_device(torch.tensor([start + length]), device))
        graph()

    def _find(self, start: int, length: int) -> tuple[int, Replay] | None:
        """Return the padded size and its graph, with the least size and span that suffice; None if there is none."""
        sufficient = (key for key in self._keys if key[0] >= length and key[1] >= start + length)
        key = next(sufficient, None)
        graph = None if key is None else self._graphs.get(key)
        return None if key is None or graph is None else (key[0], graph)

    def _check(self) -> str:
        """Return how the view of the graphs differs from the plain one; empty if it does not."""

        def view(cache: KVCache, slot: int, positions: Sequence[int]) -> StaticPromptView:
            slots, rows, end = (
                torch.tensor(each, device=self._slot.device) for each in ([slot], positions, [positions[-1] + 1])
            )
            return StaticPromptView(cache, slots, rows, end, cache.positions)

        try:
            difference = prompt_difference(self._slow, view)
        except Exception as error:  # devices raise many types
            return first_line(error)
        if difference <= TOLERANCE[self._x.dtype]:  # not if it is NaN
            return ""
        return f"they would differ by {difference:.2g}"

    def _run(self, size: int, span: int) -> Tensor:
        view = StaticPromptView(self._cache, self._slot, self._positions[:size], self._end, span)
        return self._slow.run(self._x[:, :size], view)
