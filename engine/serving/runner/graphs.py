"""Graph capture: a function on fixed tensors is captured once and replayed with one call, without its Python.

On a GPU the graphs are CUDA graphs, captured largest first in one pool as in nano-vllm's batch buckets and wrapped as
in moshi's `CUDAGraphed`. On a CPU they are traces (`engine.serving.runner.traces`).
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import first_line
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
