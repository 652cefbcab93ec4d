"""Recording a function on fixed tensors once, and replaying it with one call.

The pattern is that of moshi's `CUDAGraphed` and of nano-vllm's batch buckets: captured largest first, all in one pool.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

Function = Callable[[], Tensor]


class Recorder(Protocol):
    """Makes a function that reads and writes only tensors which stay where they are cheap to repeat."""

    def record(self, function: Function) -> Function:
        """A replay of `function`. It may be run while being recorded; its result stays in one place."""


class CudaGraphs:
    """Records CUDA graphs, all on one stream and in one memory pool.

    Only for functions that are replayed one after the other: they share their intermediate memory.
    """

    WARM_UPS = 2  # libraries choose kernels and make workspaces on the first calls, which a capture must not see

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, function: Function) -> Function:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                for _ in range(self.WARM_UPS):
                    function()
                # Other threads go on using the device meanwhile, which is no concern of this capture.
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                    result = function()
            torch.cuda.current_stream().wait_stream(self._stream)

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay
