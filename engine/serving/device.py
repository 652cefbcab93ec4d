"""Device setup: process-wide settings of torch, CUDA streams, and the sharing of CPU cores."""

from contextlib import nullcontext
from functools import cache

import torch


def prepare_device(device: torch.device) -> None:
    """Configure torch, for the whole process, for an engine on `device`.

    On a GPU, products and convolutions in fp32 do not use TF32, and products of fp16 and bf16 accumulate in fp32.
    Attention is flash or memory-efficient, never cuDNN's, which spends 25 to 40 ms planning every new shape; cuDNN's
    benchmark of convolutions, also per shape, is off. A CPU needs no settings.
    """
    if device.type != "cuda":
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def new_stream(device: torch.device, *, urgent: bool) -> torch.cuda.Stream:
    """Create a CUDA stream. Kernels of an urgent one, captured graphs included, have priority over all others."""
    return torch.cuda.Stream(device, priority=-1 if urgent else 0)


def own_stream(device: torch.device, *, urgent: bool = False) -> torch.cuda.StreamContext | nullcontext[None]:
    """Return a context that runs work on a new stream, after the current stream's work; on a CPU it does nothing."""
    if device.type != "cuda":
        return nullcontext()
    stream = new_stream(device, urgent=urgent)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)


def share_cores(device: torch.device, *, small: bool) -> None:
    """On a CPU, split the cores between the engine loop and the codec worker.

    small: whether the model's products are too small to split between cores, so that one thread is faster.
    """
    if device.type == "cpu":
        cores = _cores()
        torch.set_num_threads(1 if small else max(1, cores // 2))


@cache
def _cores() -> int:
    """Return torch's number of threads when the first model was loaded; later models divide the same number."""
    return torch.get_num_threads()
