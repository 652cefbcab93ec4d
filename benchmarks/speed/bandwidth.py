"""Measured memory bandwidth of a device, for the bounds of the other benchmarks.

A copy moves every byte twice: one read and one write. A model only reads its weights, and on a CPU reading alone is
often faster, so the bandwidth of a matrix-vector product is the fairer measure. A frame also consists of such products.
A product that is slower than the copy is bound by arithmetic, not by memory, so use the larger of the two.
"""

import statistics
import time
from collections.abc import Callable

import torch

# Far larger than any cache.
_GPU_BYTES, _CPU_BYTES = 2**30, 2**29
_ROWS = 2**13
_WARM_UP, _REPEATS = 2, 9


def copy_bandwidth(device: torch.device | str, *, size: int | None = None) -> float:
    """Measure a copy of `size` bytes on `device`. Return bytes per second, read plus written."""
    device = torch.device(device)
    source = torch.ones(size or _default_size(device), dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    return 2 * source.nbytes / _median(lambda: target.copy_(source), device)


@torch.inference_mode()
def read_bandwidth(device: torch.device | str, dtype: torch.dtype, *, size: int | None = None) -> float:
    """Measure the product of a matrix of `size` bytes and a vector in `dtype`. Return bytes read per second.

    On a CPU, the current number of torch threads is used.
    """
    device = torch.device(device)
    columns = (size or _default_size(device)) // (_ROWS * dtype.itemsize)
    matrix = torch.ones(_ROWS, columns, dtype=dtype, device=device)
    vector = torch.ones(1, columns, dtype=dtype, device=device)
    return matrix.nbytes / _median(lambda: torch.nn.functional.linear(vector, matrix), device)


def _default_size(device: torch.device) -> int:
    return _GPU_BYTES if device.type == "cuda" else _CPU_BYTES


def _median(action: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that `action` takes on the device, the median of several times after a warm-up."""
    for _ in range(_WARM_UP):
        action()
    measure = _on_gpu if device.type == "cuda" else _on_cpu
    return statistics.median(measure(action, device) for _ in range(_REPEATS))


def _on_cpu(action: Callable[[], object], _device: torch.device) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _on_gpu(action: Callable[[], object], device: torch.device) -> float:
    with torch.cuda.device(device):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        action()
        ended.record()
        ended.synchronize()
    return float(began.elapsed_time(ended)) / 1000
