"""Dependent launches: a kernel starts while the one before it ends (Hopper's programmatic dependent launch).

A kernel calls `release_next` at its start, from which on the next one may start, and `wait_for_previous` before it
reads or writes what other kernels of the step read or write. Until then it may read what no kernel of the step writes,
such as weights, so that the memory is not idle between two kernels. A kernel ends after the one before it has ended,
because some of its programs always wait.
"""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

_HOPPER = 9  # major compute capability


def dependent_launch(device: torch.device) -> dict[str, Any]:
    """Return the options of a launch on `device`: with `DEPENDENT`, a constant of the kernel, where it is available."""
    if device.type != "cuda" or not _has_dependent_launch(device.index):
        return {"DEPENDENT": False}
    return {"DEPENDENT": True, "launch_pdl": True}


@cache
def _has_dependent_launch(index: int | None) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(index)[0] >= _HOPPER


@triton.jit
def release_next(DEPENDENT: tl.constexpr):
    """Let the next kernel start as soon as all programs have come here and leave room."""
    if DEPENDENT:
        gdc_launch_dependents()


@triton.jit
def wait_for_previous(DEPENDENT: tl.constexpr):
    """Wait until the previous kernel has ended and its results can be read."""
    if DEPENDENT:
        gdc_wait()
