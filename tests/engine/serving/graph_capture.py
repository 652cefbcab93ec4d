"""Fake CUDA graphs on the CPU: every operation is recorded once and replayed on the same memory.

Decisions in Python, host reads and new allocations are frozen in the capture, as on a GPU. A function whose replays are
correct for all values of its tensors can be captured.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.serving.runner.graphs import Replay

HOST_READS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal"}


class _CallRecorder(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Dispatch without `torch._disable_dynamo`, whose import takes seconds and each call microseconds."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        if name in HOST_READS:
            raise RuntimeError(f"{name} reads a value on the host, which a graph cannot")
        made = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, tree_leaves(made)))
        return made


class FakeGraphCapture:
    """Fake of `CudaGraphCapture`. Counts captures and replays."""

    fixed_shapes = True

    def __init__(self) -> None:
        self.captured = 0
        self.replayed = 0

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        function(*inputs)  # the warm-up of a capture
        with _CallRecorder() as notes:
            result = function(*inputs)
        self.captured += 1

        def replay() -> Tensor:
            self.replayed += 1
            for func, args, kwargs, before in notes.calls:
                for old, new in zip(before, tree_leaves(func(*args, **kwargs)), strict=True):
                    if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)
            return result

        return replay


class FailingGraphCapture:
    """Fails every capture."""

    fixed_shapes = True

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        raise RuntimeError("operation not permitted when stream is capturing")


class ShortOfMemory(FakeGraphCapture):
    """Has no memory for the first captures."""

    def __init__(self, failing: int) -> None:
        super().__init__()
        self.failing = failing

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        if self.failing:
            self.failing -= 1
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().capture(function, *inputs)


def fill_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyTorch refuse new buffers, as on a GPU without free memory."""

    def refuse(*_: object, **__: object) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    for name in ("full", "ones", "zeros"):
        monkeypatch.setattr(torch, name, refuse)


class EagerCapture:
    """Captures nothing: a replay runs the function, in the shapes of a graph."""

    fixed_shapes = True

    def capture(self, function: Callable[..., Tensor], *inputs: Tensor) -> Replay:
        function(*inputs)
        return partial(function, *inputs)


def mixed_operations(x: Tensor, weight: Tensor, choice: Tensor) -> Tensor:
    """Operations used by the models: a product, a norm, a draw, an index, two dtypes."""
    y = torch.nn.functional.silu(x @ weight)
    y = y * torch.rsqrt(y.square().mean(dim=-1, keepdim=True) + 1e-6)
    best = y.topk(3, dim=-1)
    return torch.where(choice[:, None] > 0, best.values, y.gather(1, best.indices).cumsum(dim=1))


def inputs(seed: int, device: str = "cpu", rows: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, 16, generator=chance), torch.randn(16, 32, generator=chance)
    choice = torch.randint(0, 2, (rows,), generator=chance)
    return x.to(device), weight.to(device), choice.to(device)


def fill(held: tuple[Tensor, ...], new: tuple[Tensor, ...]) -> None:
    for to, value in zip(held, new, strict=True):
        to.copy_(value)
