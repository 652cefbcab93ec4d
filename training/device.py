"""The device that trains, and its batches, which other processes prepare for a GPU."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from training.work import cores

T = TypeVar("T")


def training_device() -> str:
    """Return the device of all trainings: `cuda` if there is one, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def loader_workers(device: str) -> int:
    """Return the number of processes that prepare batches: none on a CPU, whose cores the training itself uses."""
    return 0 if device == "cpu" else max(1, min(12, cores() - 2))


def prefetched(batches: Dataset[T], workers: int, steps: Iterable[int] | None = None) -> Iterator[T]:
    """Yield the batches of a dataset, prepared in `workers` processes. steps: those of a dataset with an index."""
    loader = DataLoader(
        batches,
        batch_size=None,
        sampler=steps,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,  # shares the speech
        prefetch_factor=4 if workers else None,
    )
    return iter(loader)


def bf16_autocast(device: str) -> torch.autocast:
    """Return an autocast to bf16, disabled on a CPU without AVX-512, where bf16 is fifty times slower."""
    has = device != "cpu" or torch.backends.cpu.get_cpu_capability() == "AVX512"
    return torch.autocast(device, torch.bfloat16, enabled=has)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let operations on a CPU use so many threads each."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def tf32_and_cudnn_benchmark() -> Iterator[None]:
    """Let cuDNN look for the fastest algorithms, for steps of the same shapes, and a GPU multiply in TF32."""
    precision = torch.get_float32_matmul_precision()
    if training_device() == "cuda":
        torch.set_float32_matmul_precision("high")
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
