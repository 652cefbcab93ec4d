"""The device: process-wide settings of Python, torch and Triton, the current GPU and stream of a thread, the memory
that is available, limited and released, and the sharing of CPU cores. `engine.serving.memory` plans the memory's use.
"""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache, wraps
from typing import ParamSpec, TypeVar
from weakref import WeakSet

import torch

from engine.errors import DeviceUnavailable, first_line
from engine.files.cache_folder import cache_folder
from engine.serving.host import container_cores, free_host_memory

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# Switch interval of the GIL in seconds (`sys.setswitchinterval`). A frame takes the GIL several times: beside a busy
# thread it takes several times as long with Python's 5 ms (docs/log.md).
SWITCH_SECONDS = 0.0002
# Bytes of a GPU that limited work may use besides what it is known to need: for workspaces of libraries, and for a
# prompt or a clip that another thread computes meanwhile.
SLACK_BYTES = 1 << 30
# Share of a GPU that PyTorch may use in all processes together. The rest is for the CUDA context of each.
_SHARED = 0.95
# Share of a host's free memory that is planned: the rest is for sounds, clips, the page and other programs.
_OF_HOST = 0.9
# Held by captures of CUDA graphs: a capture begins with a synchronization of the whole device, which fails while
# another thread captures, and so does emptying PyTorch's cache.
capture_lock = threading.RLock()
# Objects that may run matrix products on a GPU at any time, in their own threads or those of callers.
_users: "WeakSet[object]" = WeakSet()


def prepare_device(device: torch.device) -> None:
    """Configure Python, torch and Triton, for the whole process, for an engine on `device`.

    The GIL's switch interval is `SWITCH_SECONDS`, so that the engine loop does not wait for the page's threads.

    On a GPU, products and convolutions in fp32 do not use TF32, and products of fp16 and bf16 accumulate in fp32.
    Attention is flash or memory-efficient, never cuDNN's, which spends 25 to 40 ms planning every new shape; cuDNN's
    benchmark of convolutions, also per shape, is off. Triton keeps compiled kernels in the user's cache folder: its
    default is beside it, and read-only in a container. On a CPU torch needs no settings.
    """
    sys.setswitchinterval(min(SWITCH_SECONDS, sys.getswitchinterval()))
    if device.type != "cuda":
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    os.environ.setdefault("TRITON_CACHE_DIR", str(cache_folder() / "triton"))


def choose_device(device: str) -> torch.device:
    """Resolve `auto`, `cpu`, `cuda` or `cuda:N` to an existing device. Raises DeviceUnavailable."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise DeviceUnavailable("engine.no_device", device=device) from None
    if chosen.type not in ("cpu", "cuda"):
        raise DeviceUnavailable("engine.other_device", device=device)
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceUnavailable("engine.no_cuda")
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise DeviceUnavailable("engine.few_devices", device=device, count=torch.cuda.device_count())
        chosen = torch.device("cuda", chosen.index or 0)
    return chosen


def without_torch_modes(work: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that callers run in threads of their own: it runs without their autocast and default device.

    These modes belong to a thread; the engine's threads have none.
    """

    @wraps(work)
    def run(*args: P.args, **options: P.kwargs) -> T:
        with ExitStack() as modes:
            for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
                modes.enter_context(torch.autocast(kind, enabled=False))
            if torch.get_default_device().type != "cpu":
                modes.enter_context(torch.device("cpu"))
            return work(*args, **options)

    return run


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which a GPU is its thread's current one, where Triton starts kernels; on a CPU it does
    nothing."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def is_lost(device: torch.device) -> bool:
    """Return whether a GPU refuses all further work of this process, as after an illegal memory access.

    Waits for the current stream only: another thread may be capturing a graph.
    """
    if device.type != "cuda":
        return False
    try:
        torch.cuda.current_stream(device).synchronize()
    except RuntimeError:
        return True
    return False


def new_stream(device: torch.device, *, urgent: bool) -> torch.cuda.Stream:
    """Create a CUDA stream. Kernels of an urgent one, captured graphs included, have priority over all others."""
    return torch.cuda.Stream(device, priority=-1 if urgent else 0)


@contextmanager
def own_stream(device: torch.device, *, urgent: bool = False) -> Iterator[torch.cuda.Stream | None]:
    """Run work `on_device`, on a new stream, after the current stream's work and before its later work; on a CPU do
    nothing."""
    with on_device(device):
        if device.type != "cuda":
            yield None
            return
        stream = new_stream(device, urgent=urgent)
        current = torch.cuda.current_stream(device)
        stream.wait_stream(current)
        try:
            with torch.cuda.stream(stream):
                yield stream
        finally:
            with suppress(RuntimeError):  # the device is lost
                current.wait_stream(stream)  # which may use the same memory


def available_memory(device: torch.device | str) -> int | None:
    """Return the bytes that can still be allocated: on a GPU including those that PyTorch has reserved but not
    allocated, within this process's share; on a CPU nine tenths of the free ones, or None, no limit, if the system does
    not say."""
    device = torch.device(device)
    if device.type != "cuda":
        free = free_host_memory()
        return None if free is None else int(_OF_HOST * free)
    index: int | None = device.index  # PyTorch's types deny None
    index = torch.cuda.current_device() if index is None else index
    with capture_lock:  # no `limited_memory` is in force
        free, total = torch.cuda.mem_get_info(device)
        share = int(total * torch.cuda.get_per_process_memory_fraction(index))
        return min(free + torch.cuda.memory_reserved(device), share) - torch.cuda.memory_allocated(device)


def limit_gpu_memory(fraction: float) -> None:
    """Limit this process to a fraction, from 0 to 1, of the memory of each visible GPU, because other processes load
    their models at the same time."""
    for index in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(fraction * _SHARED, index)


def reserved_memory(device: torch.device | str) -> int | None:
    """Return the bytes of a GPU that PyTorch has reserved for this process; None elsewhere."""
    device = torch.device(device)
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else None


def note_gpu_user(user: object) -> None:
    """Note an engine or its loop: as long as it exists, `release_memory` keeps the workspaces of cuBLAS."""
    _users.add(user)


def release_memory() -> None:
    """Return the memory of unused models to the system, on all GPUs.

    PyTorch keeps a workspace of cuBLAS for each thread and stream that has multiplied. They are freed when no engine is
    left: graphs contain their addresses.

    A model may have been loaded before objects were excluded from collections (`gc.freeze`), so these are included this
    time. If there are any, all objects that are left are excluded afterwards.
    """
    excluded = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    if excluded:
        gc.freeze()
    if torch.cuda.is_available():
        free_workspaces = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # PyTorch has no public name for it
        with capture_lock:
            if free_workspaces is not None and not _users:
                free_workspaces()
            torch.cuda.empty_cache()


@contextmanager
def limited_memory(device: torch.device, needed: int) -> Iterator[None]:
    """Limit what PyTorch may reserve on a GPU to what is in use, `needed` bytes and `SLACK_BYTES`; on a CPU do nothing.

    The limit is that of the whole process, never above the one before, which is in force again afterwards. No graph is
    captured meanwhile.
    """
    if device.type != "cuda":
        yield
        return
    with capture_lock:
        torch.cuda.empty_cache()
        before, total = torch.cuda.get_per_process_memory_fraction(device), torch.cuda.mem_get_info(device)[1]
        least = (torch.cuda.memory_reserved(device) + needed + SLACK_BYTES) / total
        torch.cuda.set_per_process_memory_fraction(min(before, least), device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(before, device)


def run_in_limited_memory(device: torch.device, needed: int, work: Callable[[], T]) -> T:
    """Run `work`, which may be run twice, for the first time with its shapes in this thread, and return its result.

    For convolutions, cuDNN takes the first of its algorithms whose workspace can be allocated, whatever its size: on a
    large GPU tens of gigabytes. PyTorch keeps the choice for the thread and the shapes. So the first run is in
    `limited_memory`, or without the limit if it fails, as when `needed` has been counted too low.
    """
    if device.type != "cuda":
        return work()
    try:
        with limited_memory(device, needed):
            return work()
    except RuntimeError as error:
        log.warning("Work failed in limited GPU memory and is repeated without the limit: %s", first_line(error))
    return work()


def share_cores(device: torch.device, *, small: bool) -> None:
    """Set torch's number of threads.

    On a CPU, the engine loop and the codec worker split the cores; beside a GPU, the page's clips use all of them.

    small: whether the model's products are too small to split between cores, so that one thread is faster.
    """
    if device.type != "cpu":
        use_container_cores()
    else:
        torch.set_num_threads(1 if small else max(1, _cores() // 2))


def use_container_cores() -> None:
    """Let torch use no more threads than the container may use cores: with more, an operation takes many times as long
    while the other threads of the process are stopped, too."""
    torch.set_num_threads(_cores())


@cache
def _cores() -> int:
    """Return torch's number of threads when the first model was loaded, or as many cores as the container may use, if
    that is less; later models divide the same number.
    """
    return min(torch.get_num_threads(), container_cores() or sys.maxsize)
