"""TorchScript traces, the graphs of a CPU: Python takes half of the time of a small model's frame.

PyTorch deprecates `torch.jit` in favour of a compiler that takes minutes and needs a C++ compiler; torch's version is
pinned, and in a release without `torch.jit` every step would run eagerly.
"""

import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.models.int8_linear import no_weights
from engine.models.kv_cache import rows_of
from engine.serving.runner.graphs import Replay


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
