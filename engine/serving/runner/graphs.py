"""Graph capture: a function on fixed tensors is captured once and replayed with one call, without its Python.

On a GPU the graphs are CUDA graphs, captured largest first in one pool as in nano-vllm's batch buckets and wrapped as
in moshi's `CUDAGraphed`. On a CPU they are TorchScript traces: Python takes half of the time of a small model's frame.
PyTorch deprecates its tracer in favour of a compiler that takes minutes and needs a C++ compiler; torch's version is
pinned, and without the tracer every step runs eagerly.
"""

import logging
import threading
import warnings
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.errors import first_line
from engine.models.int8_linear import packed_weights
from engine.models.kv_cache import rows_of
from engine.serving.device import new_stream

log = logging.getLogger(__name__)

Replay = Callable[[], Tensor]
GraphKey = tuple[int, int]

# A CUDA capture begins with a synchronization of the whole device, which fails while another thread captures.
_cuda_capture_lock = threading.Lock()


class GraphCapture(Protocol):
    """Captures functions of tensors that stay at fixed addresses.

    fixed_shapes: whether all shapes in a graph are fixed when it is captured, whatever its inputs hold at replay.
    """

    fixed_shapes: bool

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        """Return a replay of `function(*inputs)` that reads the inputs' current values.

        The function may run during the capture; its Python code never runs again.
        """


class CudaGraphCapture:
    """Captures CUDA graphs, all on one stream and in one memory pool.

    Only for functions that are replayed one after the other, because they share their intermediate memory. The result
    of a replay is valid until the next replay of any of them.
    """

    fixed_shapes = True
    WARM_UPS = 2  # libraries choose kernels and allocate workspaces on the first calls, which must not be captured

    def __init__(self, device: torch.device, *, urgent: bool = False) -> None:
        """urgent: whether the graphs' kernels have priority over those of other streams."""
        self._device = device
        self._stream = new_stream(device, urgent=urgent)
        self._pool = torch.cuda.graph_pool_handle()

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        graph = torch.cuda.CUDAGraph()
        with _cuda_capture_lock, torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                for _ in range(self.WARM_UPS):
                    function(*inputs)
                # `thread_local`: other threads may use the device during the capture.
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                    result = function(*inputs)
            torch.cuda.current_stream().wait_stream(self._stream)

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay


class TorchScriptCapture:
    """Traces functions of their inputs alone: every other tensor becomes a constant."""

    fixed_shapes = False

    def __init__(self, *modules: nn.Module) -> None:
        """modules: those that the functions use. Their packed weights cannot be constants of a trace; they become
        members of a module that the trace takes as its first argument."""
        holder = nn.Module()
        for i, weights in enumerate(chain.from_iterable(map(packed_weights, modules))):
            setattr(holder, f"packed{i}", weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._holder: Any = torch.jit.script(holder)

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        function(*inputs)  # the first run caches views of weights, which become constants of the trace
        # The parts of `torch.jit.trace`, which itself never frees a traced function or module and its weights: 45 MB
        # for every model loaded. The public alternatives either keep Python in the step (`torch.fx`) or need a C++
        # compiler (`torch.export` with AOTInductor, `torch.compile`).
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are constant on purpose
            graph, _ = torch._C._create_graph_by_tracing(
                function, inputs, lambda _value: "", True, False, self._holder._c, []
            )
        traced = torch._C._create_function_from_graph("step", graph)

        def replay() -> Tensor:
            # Optimizing the trace takes several times as long as tracing and gains nothing.
            with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
                result: Tensor = traced(self._holder, *inputs)
            return result

        replay()  # the first run prepares the trace, which takes ten times as long as a run
        return replay


class CapturedGraphs:
    """Captured functions by key.

    A key whose capture fails has no graph and is not tried again. The first failure is logged, and failures show in
    `state`.
    """

    def __init__(self, capture: GraphCapture | None, name: str) -> None:
        self._capture, self._name = capture, name
        self._replays: dict[GraphKey, Replay] = {}
        self._failed: dict[GraphKey, str] = {}  # with the reason

    @property
    def state(self) -> str:
        """The name, with the number of keys that failed and why; `off` without a capture, or if every key failed."""
        if self._capture is None:
            return "off"
        failed = dict(self._failed)  # another thread may add to it
        if not failed:
            return self._name
        why = next(iter(failed.values()))
        if not self._replays:
            return f"off: they could not be recorded ({why})"
        return f"{self._name}, {len(failed)} of {len(failed) + len(self._replays)} sizes without ({why})"

    @property
    def has_failed(self) -> bool:
        """Whether the capture of a key has failed."""
        return bool(self._failed)

    def get(self, key: GraphKey) -> Replay | None:
        """Return the replay captured under `key`, if any."""
        return self._replays.get(key)

    def is_missing(self, key: GraphKey) -> bool:
        """Return whether `key` can be captured and has not been tried."""
        return self._capture is not None and key not in self._replays and key not in self._failed

    def capture(self, key: GraphKey, function: Callable[..., Tensor], *inputs: Tensor) -> None:
        """Capture `function(*inputs)` under `key`."""
        assert self._capture is not None
        try:
            self._replays[key] = self._capture.capture(function, *inputs)
        except Exception as error:  # tracers raise many types
            if not self._failed:
                log.warning("Steps of some sizes are not recorded and run more slowly: %s", error)
            self._failed[key] = first_line(error)


class TracedRowsView:
    """`ExactRowsView` for a TorchScript trace: slots and positions are read from tensors at every replay.

    buffer: of the cache. slots, positions: int64 `[B]`.
    """

    def __init__(self, buffer: Tensor, slots: Tensor, positions: Tensor) -> None:
        self._buffer, self._slots, self._positions = buffer, slots, positions

    def rope(self, table: Tensor, new: int) -> Tensor:
        return rows_of(table, self._positions)

    def slot_rows(self, new: int) -> tuple[Tensor, Tensor, Tensor]:
        return self._buffer, self._slots, self._positions

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
    """`_attend`, scripted rather than traced: its loop and its sizes depend on the tensors' values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(_attend)
