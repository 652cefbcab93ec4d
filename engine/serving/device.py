"""What speech needs of a device: the settings of torch, made in one place, its streams and the sharing of cores."""

from contextlib import nullcontext
from functools import cache

import torch


def prepare_device(device: torch.device) -> None:
    """Make the settings of torch that hold for a whole process, for an engine on `device`.

    On a GPU fp32 means fp32, in products and convolutions: no TF32. Products of fp16 and bf16 are summed in fp32.
    Attention is flash or memory-efficient, never cuDNN's, which plans 25 to 40 ms for every new shape; convolutions
    are not tried out for every new shape either. A CPU needs no settings.
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
    """Make a stream of a GPU. The kernels of an urgent one, captured graphs included, go before all others'."""
    return torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]


def own_stream(device: torch.device, *, urgent: bool = False) -> torch.cuda.StreamContext | nullcontext[None]:
    """A block of work on a new stream, behind what the thread's current stream was given; on a CPU nothing."""
    if device.type != "cuda":
        return nullcontext()
    stream = new_stream(device, urgent=urgent)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)


def share_cores(device: torch.device, *, small: bool) -> None:
    """On a CPU, split the cores between the engine loop and the codec worker.

    small: whether the model's products are too small to be shared between cores, so that one thread is faster.
    """
    if device.type == "cpu":
        cores = _cores()
        torch.set_num_threads(1 if small else max(1, cores // 2))


@cache
def _cores() -> int:
    """The threads of torch when the first model was loaded: each further model shares as many."""
    return torch.get_num_threads()
