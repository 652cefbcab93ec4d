"""What a CUDA graph is to a GPU, for a CPU: a function recorded once and run again without Python.

Half of the time of a small model's Fast AR is Python's. PyTorch calls its tracer deprecated in favour of a compiler,
which takes a C++ compiler and minutes; the release of torch is pinned, and without the tracer everything runs as it is.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from engine.cuda_graph import Replay


class TorchScripts:
    """Records functions of their inputs alone: any other tensor would count as a constant, and be computed away."""

    def record(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on the deprecation, and on the sizes that are meant to stay as they are
            traced = torch.jit.trace(function, inputs, check_trace=False)  # type: ignore[no-untyped-call]

        def replay() -> Tensor:
            # Rearranging the trace takes several times as long as tracing, and gains nothing.
            with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
                result: Tensor = traced(*inputs)
            return result

        replay()  # the first takes longer
        return replay
