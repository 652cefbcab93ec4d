"""Recording a function on fixed tensors once, and replaying it with one call.

The pattern is that of moshi's `CUDAGraphed` and of nano-vllm's batch buckets: captured largest first, all in one pool.
"""

import threading
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

Replay = Callable[[], Tensor]

# A capture begins by waiting for the whole device, which is an error while any thread captures.
_one_at_a_time = threading.Lock()


class Recorder(Protocol):
    """Makes a function that works on tensors which stay where they are cheap to repeat.

    fixed_shapes: whether a recording's shapes stay as they were, whatever its inputs hold.
    """

    fixed_shapes: bool

    def record(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        """A replay of `function(*inputs)`, with what the inputs hold by then.

        The function may be run while it is recorded. What its Python does is done then, and never again.
        """


class CudaGraphs:
    """Records CUDA graphs, all on one stream and in one memory pool.

    Only for functions that are replayed one after the other: they share their intermediate memory. The result of a
    replay stays until the next replay of any of them.
    """

    fixed_shapes = True
    WARM_UPS = 2  # libraries choose kernels and make workspaces on the first calls, which a capture must not see

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        graph = torch.cuda.CUDAGraph()
        with _one_at_a_time, torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                for _ in range(self.WARM_UPS):
                    function(*inputs)
                # Other threads go on using the device meanwhile, which is no concern of this capture.
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                    result = function(*inputs)
            torch.cuda.current_stream().wait_stream(self._stream)

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay
