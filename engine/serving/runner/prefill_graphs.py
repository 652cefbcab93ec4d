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
from engine.serving.runner.graphs import CapturedGraphs, GraphCapture, Replay, powers

SHORTEST_SPAN = 512


class PrefillGraphs:
    """Replays graphs of the slow stack over one slot's next positions. A size without a graph has none.

    Padding is written to the last position of the slot, which no request may use.
    """

    def __init__(self, slow: SlowStack, cache: KVCache, sizes: tuple[int, ...], capture: GraphCapture | None) -> None:
        """sizes: that positions are padded to, ascending. capture: None for no graphs."""
        self._slow, self._cache, self._sizes = slow, cache, sizes
        self._graphs = CapturedGraphs(capture, "prompts")
        self._spans = powers(min(SHORTEST_SPAN, cache.positions), cache.positions)
        weight = slow.norm.weight
        self._x = weight.new_zeros(1, sizes[-1], len(weight))
        self._slot = torch.zeros(1, dtype=torch.long, device=weight.device)
        self._unused = cache.positions - 1
        self._positions = torch.full(sizes[-1:], self._unused, device=weight.device)
        self._disagreement: str | None = None  # empty once the check has passed

    @property
    def failure(self) -> str:
        """Why there are no graphs, or none of some sizes; empty if nothing has failed."""
        return self._disagreement or (self._graphs.state if self._graphs.has_failed else "")

    def capture_next(self) -> bool:
        """Check the view, or capture one missing graph, the largest first. Returns False when nothing is left."""
        keys = [(size, span) for size in reversed(self._sizes) for span in reversed(self._spans) if size <= span]
        missing = next((key for key in keys if self._graphs.is_missing(key)), None)
        if missing is None or self._disagreement:
            return False
        if self._disagreement is None:
            self._disagreement = self._check()
            return True
        self._positions.fill_(self._unused)  # the function runs while it is captured, and must change no request
        self._graphs.capture(missing, partial(self._run, *missing))
        return True

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
        self._positions[:size].copy_(to_device(positions, device))
        self._slot.copy_(to_device(torch.tensor([slot]), device))
        graph()

    def _find(self, start: int, length: int) -> tuple[int, Replay] | None:
        """Return the padded size and its graph, with the least span that suffices."""
        size = next((size for size in self._sizes if size >= length), self._sizes[-1])
        span = next((span for span in self._spans if span >= max(start + length, size)), None)
        graph = None if span is None or length > size else self._graphs.get((size, span))
        return None if graph is None else (size, graph)

    def _check(self) -> str:
        """Return how the view of the graphs differs from the plain one; empty if it does not."""

        def view(cache: KVCache, slot: int, positions: Sequence[int]) -> StaticPromptView:
            device = self._slot.device
            rows = torch.tensor(positions, device=device)
            return StaticPromptView(cache, torch.tensor([slot], device=device), rows, cache.positions)

        try:
            difference = prompt_difference(self._slow, view)
        except Exception as error:  # devices raise many types
            return f"prompts without graphs: {first_line(error)}"
        if difference <= TOLERANCE[self._x.dtype]:  # not if it is NaN
            return ""
        return f"prompts without graphs: they would differ by {difference:.2g}"

    def _run(self, size: int, span: int) -> Tensor:
        view = StaticPromptView(self._cache, self._slot, self._positions[:size], span)
        return self._slow.run(self._x[:, :size], view)
