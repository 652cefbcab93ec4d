"""Graph capture: a function on fixed tensors is captured once and replayed with one call, without its Python.

On a GPU the graphs are CUDA graphs, captured largest first in one pool as in nano-vllm's batch buckets and wrapped as
in moshi's `CUDAGraphed`. On a CPU they are TorchScript traces: Python takes half of the time of a small model's frame.
PyTorch deprecates `torch.jit` in favour of a compiler that takes minutes and needs a C++ compiler; torch's version is
pinned, and in a release without `torch.jit` every step would run eagerly.
"""

import logging
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.errors import first_line
from engine.models.int8_linear import no_weights
from engine.models.kv_cache import rows_of
from engine.serving.device import capture_lock, new_stream

log = logging.getLogger(__name__)

Replay = Callable[[], Tensor]
GraphKey = tuple[int, ...]


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
        self._device, self._urgent = device, urgent
        self._begin_pool()

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        graph, stream = torch.cuda.CUDAGraph(), self._stream
        with capture_lock, torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            stream.wait_stream(current)
            try:
                with torch.cuda.stream(stream):
                    for _ in range(self.WARM_UPS):
                        function(*inputs)
                    # `thread_local`: other threads may use the device during the capture.
                    mode = "thread_local"
                    with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode=mode):
                        result = function(*inputs)
            except Exception:
                self._abandon_pool()
                raise
            finally:
                with suppress(RuntimeError):  # the device is lost
                    current.wait_stream(stream)  # which writes to the function's tensors, after a failure, too

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay

    def _begin_pool(self) -> None:
        self._stream = new_stream(self._device, urgent=self._urgent)
        self._pool = torch.cuda.graph_pool_handle()

    def _abandon_pool(self) -> None:
        """Use another pool and stream after a failed capture; graphs captured before keep theirs.

        If CUDA reports an error at the end of a capture, PyTorch 2.11 does not end its allocations, and from then on
        refuses to capture or to empty its cache (pytorch/pytorch#180395).
        """
        with suppress(RuntimeError):  # they have been ended
            torch._C._cuda_endAllocateToPool(self._device.index or 0, self._pool)
        self._begin_pool()


class TorchScriptCapture:
    """Traces functions. A replay computes with the current values of the same tensors.

    PyTorch never frees a trace. Therefore a trace holds no tensors but those of its last user, and the traces of
    deleted replays are used again for the same operations, as when a model is loaded again.
    """

    fixed_shapes = False

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        function(*inputs)  # the first run caches views of weights
        with _OperationRecorder(inputs) as recorder:
            result = function(*inputs)
        objects, operations = recorder.objects, recorder.operations(result)
        trace = _take_trace(operations) or _Trace(function, inputs, objects, operations)
        trace.bind(objects)

        def replay() -> Tensor:
            # Optimizing the trace takes several times as long as tracing and gains nothing.
            with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
                result: Tensor = trace.module.forward()
            return result

        replay()  # the first run prepares the trace, which takes ten times as long as a run
        weakref.finalize(replay, _return_trace, trace).atexit = False
        return replay


class _OperationRecorder(TorchFunctionMode):
    """Records the operations of a function, and the tensors and packed weights that it does not make itself.

    objects: these tensors and weights, the function's inputs first.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.objects: list[Tensor | torch.ScriptObject] = []
        self._numbers: dict[int, int] = {}  # by the id of a tensor or weight
        self._kept: list[Any] = []  # so that no id is used twice
        self._calls: list[str] = []
        for tensor in inputs:
            self._note_object(tensor)

    def operations(self, result: Tensor) -> str:
        """Return a text that is equal for functions with the same operations. result: what the function returned."""
        return "\n".join((*self._calls, self._described(result)))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = f"{func!r} {self._described(args)} {self._described(kwargs or {})}"
        made = func(*args, **(kwargs or {}))
        # A number, such as an address, matters only if it is an argument of a later operation.
        self._calls.append(call if isinstance(made, int | float) else f"{call} {self._described(made, made=True)}")
        return made

    def _described(self, value: Any, *, made: bool = False) -> str:
        """Describe arguments, or with `made` the result of an operation: tensors by their numbers."""
        if isinstance(value, Tensor | torch.ScriptObject):
            if id(value) not in self._numbers:
                if not made:
                    return self._note_object(value)
                self._number(value)
            return f"%{self._numbers[id(value)]}"
        if isinstance(value, dict):
            return str({name: self._described(each, made=made) for name, each in value.items()})
        if isinstance(value, list | tuple):
            return str([self._described(each, made=made) for each in value])
        return repr(value)

    def _note_object(self, value: Tensor | torch.ScriptObject) -> str:
        self.objects.append(value)
        kind = (value.dtype, value.shape, value.stride()) if isinstance(value, Tensor) else type(value)
        return f"%{self._number(value)} {kind}"

    def _number(self, value: Tensor | torch.ScriptObject) -> int:
        self._kept.append(value)
        return self._numbers.setdefault(id(value), len(self._numbers))


class _Trace:
    """A traced function. All tensors and packed weights that it does not make itself are members of its module.

    operations: as `_OperationRecorder.operations` describes them.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        inputs: Sequence[Tensor],
        objects: Sequence[Tensor | torch.ScriptObject],
        operations: str,
    ) -> None:
        traced = [partial(function, *inputs)]  # emptied below: the trace needs neither the function nor its tensors

        class Step(nn.Module):
            def forward(self) -> Tensor:
                return traced[0]()

        self.operations, step = operations, Step()
        self._names = [f"object{i}" for i in range(len(objects))]
        for name, value in zip(self._names, objects, strict=True):
            if isinstance(value, Tensor):
                step.register_buffer(name, value, persistent=False)
            else:
                setattr(step, name, value)
        # The alternatives to `torch.jit` either keep Python in the step (`torch.fx`) or need a C++ compiler
        # (`torch.export` with AOTInductor, `torch.compile`).
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are constant on purpose
            self.module: Any = torch.jit.trace(step, (), check_trace=False)
        traced.clear()

    def bind(self, objects: Sequence[Tensor | torch.ScriptObject]) -> None:
        """Let the trace compute with these tensors and packed weights."""
        for name, value in zip(self._names, objects, strict=True):
            setattr(self.module, name, value)

    def release(self) -> None:
        """Drop the tensors and packed weights."""
        values = (getattr(self.module, name) for name in self._names)
        self.bind([torch.empty(0) if isinstance(value, Tensor) else no_weights() for value in values])


# Traces that are not in use, by their operations. A finalizer may return a trace at any moment, also while one is
# taken, so there is no lock: all of these changes are atomic.
_unused_traces: dict[str, list[_Trace]] = {}


def _take_trace(operations: str) -> _Trace | None:
    with suppress(KeyError, IndexError):
        return _unused_traces[operations].pop()
    return None


def _return_trace(trace: _Trace) -> None:
    trace.release()
    _unused_traces.setdefault(trace.operations, []).append(trace)


class CapturedGraphs:
    """Captured functions by key.

    A key whose capture fails has no graph and is not tried again, unless it lacked memory: then `retry` allows another
    attempt. The first failure is logged, and failures show in `state`.
    """

    def __init__(self, capture: GraphCapture | None, name: str) -> None:
        self._capture, self._name = capture, name
        self._replays: dict[GraphKey, Replay] = {}
        self._failed: dict[GraphKey, str] = {}  # with the reason
        self._out_of_memory: set[GraphKey] = set()  # those of them whose first capture lacked memory
        self._retrying: set[GraphKey] = set()

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
            return f"off: they could not be captured ({why})"
        return f"{self._name}, {len(failed)} of {len(failed) + len(self._replays)} sizes without ({why})"

    @property
    def failure(self) -> str:
        """The state if the capture of a key has failed; empty otherwise."""
        return self.state if self._failed else ""

    def get(self, key: GraphKey) -> Replay | None:
        """Return the replay captured under `key`, if any."""
        return self._replays.get(key)

    def is_missing(self, key: GraphKey) -> bool:
        """Return whether `key` can be captured and has not been tried, or may be tried again."""
        tried = key in self._replays or (key in self._failed and key not in self._retrying)
        return self._capture is not None and not tried

    def retry(self) -> bool:
        """Allow another attempt of captures that have lacked memory, once each. Returns whether there are any.

        Call it when the engine is idle, after the other captures: prompts and clips may have released what they used.
        """
        self._retrying |= self._out_of_memory
        found, self._out_of_memory = bool(self._out_of_memory), set()
        return found

    def capture(self, key: GraphKey, function: Callable[..., Tensor], *inputs: Tensor) -> None:
        """Capture `function(*inputs)` under `key`."""
        assert self._capture is not None
        self._retrying.discard(key)
        try:
            self._replays[key] = self._capture.capture(function, *inputs)
            self._failed.pop(key, None)
        except Exception as error:  # tracers raise many types
            if not self._failed:
                log.warning("Some sizes have no graph (%s) and run more slowly: %s", self._name, error)
            if key not in self._failed and _lacked_memory(error):
                self._out_of_memory.add(key)
            self._failed[key] = first_line(error)


def _lacked_memory(error: BaseException) -> bool:
    """Return whether an error, or one during whose handling it was raised, is of a GPU without free memory."""
    return isinstance(error, torch.OutOfMemoryError) or (
        error.__context__ is not None and _lacked_memory(error.__context__)
    )


class TracedRowsView:
    """`UnpaddedRowsView` for a TorchScript trace: slots and positions are read from tensors at every replay.

    buffer: of the cache. slots, positions: int64 `[B]`.
    """

    def __init__(self, buffer: Tensor, slots: Tensor, positions: Tensor) -> None:
        self._buffer, self._slots, self._positions = buffer, slots, positions

    def next_rope(self, table: Tensor, new: int) -> Tensor:
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
