"""Copies from the host to a device that wait neither for the copy nor for the device's earlier work."""

import torch
from torch import Tensor


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a CPU tensor `[…]` in memory that a GPU can read by itself, for copies with `non_blocking`; for other
    devices the tensor itself."""
    return tensor.contiguous().pin_memory() if device.type == "cuda" else tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device. The copy is complete for later work on the current stream."""
    return pinned(tensor, device).to(device, non_blocking=True)
