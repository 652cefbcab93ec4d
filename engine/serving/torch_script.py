"""What a CUDA graph is to a GPU, for a CPU: a function recorded once and run again without Python.

Half of the time of a small model's frame is Python's. PyTorch calls its tracer deprecated in favour of a compiler,
which takes a C++ compiler and minutes; the release of torch is pinned, and without the tracer everything runs as it is.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.serving.graphs import Replay


class TorchScripts:
    """Records functions of their inputs alone: any other tensor counts as a constant."""

    fixed_shapes = False

    def record(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        # What `torch.jit.trace` is made of. That one keeps all that was ever traced, and its weights, for ever.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on sizes, which are meant to stay as they are
            graph, _ = torch._C._create_graph_by_tracing(function, inputs, lambda _value: "", True, False)
        traced = torch._C._create_function_from_graph("step", graph)

        def replay() -> Tensor:
            # Rearranging the trace takes several times as long as tracing, and gains nothing.
            with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
                result: Tensor = traced(*inputs)
            return result

        replay()  # the first run prepares the trace, which takes ten times as long as a run
        return replay


class TracedRows:
    """`ExactRowsView` that a recording can hold: where the rows stand is read anew every time it runs.

    buffer: of the cache. slots, positions: int64 `[B]`.
    """

    def __init__(self, buffer: Tensor, slots: Tensor, positions: Tensor) -> None:
        self._buffer, self._slots, self._positions = buffer, slots, positions

    def positions(self, new: Tensor) -> Tensor:
        return self._positions[:, None] + new

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = _scripted_attend()(self._buffer[layer], self._slots, self._positions, q, k, v)
        return out


def _attend(buffer: Tensor, slots: Tensor, positions: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out = torch.empty_like(q)
    heads, groups, width = q.shape[1], k.shape[1], q.shape[3]
    for row in range(q.shape[0]):
        keys, values = buffer[:, int(slots[row])].unbind(0)
        end = int(positions[row]) + 1
        keys[:, end - 1] = k[row, :, 0]
        values[:, end - 1] = v[row, :, 0]
        grouped = q[row].view(1, groups, heads // groups, width)
        found = F.scaled_dot_product_attention(grouped, keys[None, :, :end], values[None, :, :end])
        out[row] = found.view(heads, 1, width)
    return out


@cache
def _scripted_attend() -> Any:
    """Compiled, not traced: its loop and its sizes must follow what the tensors hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(_attend)
