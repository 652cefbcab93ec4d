"""The engine sets torch's global settings regardless of their previous values."""

import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import MagicMock
from weakref import WeakSet

import pytest
import torch

from engine import Engine
from engine.serving import device as module
from engine.serving.device import (
    SLACK_BYTES,
    SWITCH_SECONDS,
    available_memory,
    capture_lock,
    is_lost,
    limit_gpu_memory,
    limited_memory,
    note_gpu_user,
    on_device,
    own_stream,
    prepare_device,
    release_memory,
    reserved_memory,
    run_in_limited_memory,
    share_cores,
)
from tests.paths import MINIATURE

GB, GIB = 10**9, 1 << 30
CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


@pytest.fixture(autouse=True)
def no_triton_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Triton's cache folder unset, and restore the variable after the test."""
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    monkeypatch.delenv("TRITON_CACHE_DIR")


@pytest.fixture
def tf32() -> Iterator[None]:
    """Enable TF32, as other code may have done."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, torch.backends.cuda.cudnn_sdp_enabled()
    matmul.allow_tf32 = cudnn.allow_tf32 = True
    yield
    matmul.allow_tf32, cudnn.allow_tf32 = before[:2]
    torch.backends.cuda.enable_cudnn_sdp(before[2])


@pytest.mark.usefixtures("tf32")
def test_prepare_device_disables_tf32_and_cudnn_attention() -> None:
    prepare_device(CPU)
    assert torch.backends.cuda.matmul.allow_tf32
    prepare_device(CUDA)
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()


@pytest.mark.usefixtures("tf32")
def test_kernels_are_kept_in_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    prepare_device(CPU)
    assert "TRITON_CACHE_DIR" not in os.environ
    prepare_device(CUDA)
    assert Path(os.environ["TRITON_CACHE_DIR"]) == tmp_path / "reprise" / "triton"
    monkeypatch.setenv("TRITON_CACHE_DIR", "elsewhere")
    prepare_device(CUDA)
    assert os.environ["TRITON_CACHE_DIR"] == "elsewhere"


def test_threads_get_pythons_lock_soon() -> None:
    before = sys.getswitchinterval()
    try:
        for own, expected in ((0.005, SWITCH_SECONDS), (0.0001, 0.0001)):
            sys.setswitchinterval(own)
            prepare_device(CPU)
            assert sys.getswitchinterval() == pytest.approx(expected, abs=2e-6)  # whole microseconds
    finally:
        sys.setswitchinterval(before)


def test_share_cores_sets_threads_by_model_size(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [8]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(module, "container_cores", lambda: None)
    module._cores.cache_clear()
    try:
        for small in (False, True, False, False):
            share_cores(CPU, small=small)
        share_cores(CUDA, small=False)
    finally:
        module._cores.cache_clear()
    assert threads == [8, 4, 1, 4, 4, 8]


def test_share_cores_stays_within_the_containers_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch counts the cores of the machine: more threads than the container's time allows wait for each other."""
    threads: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    for limit in (6, 1, 100):
        monkeypatch.setattr(module, "container_cores", lambda limit=limit: limit)
        module._cores.cache_clear()
        share_cores(CPU, small=False)
        share_cores(CUDA, small=False)  # clips are decoded and examined on the CPU
    module._cores.cache_clear()
    assert threads == [3, 6, 1, 1, 32, 64]


def test_device_that_refuses_all_work_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[RuntimeError] = []

    class Stream:
        def synchronize(self) -> None:
            for error in errors:
                raise error

    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: Stream())
    assert not is_lost(CUDA)
    errors.append(torch.AcceleratorError("CUDA error: an illegal memory access was encountered"))
    assert is_lost(CUDA)
    assert not is_lost(CPU)


def test_own_stream_is_none_on_cpu() -> None:
    with own_stream(CPU, urgent=True) as stream:
        assert stream is None


def test_own_stream_makes_its_device_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever stream is created, waited for and used, the device is already the current one."""
    entered: list[str] = []
    waits: list[tuple[object, object]] = []

    class Stream:
        def wait_stream(self, other: object) -> None:
            assert entered == ["cuda:1"]
            waits.append((self, other))

    @contextmanager
    def enter(what: object) -> Iterator[None]:
        entered.append("stream" if isinstance(what, Stream) else str(what))
        yield
        entered.pop()

    monkeypatch.setattr(torch.cuda, "device", enter)
    monkeypatch.setattr(torch.cuda, "stream", enter)
    usual, own = Stream(), Stream()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: usual)
    monkeypatch.setattr(module, "new_stream", lambda _device, *, urgent: own)
    with own_stream(torch.device("cuda:1"), urgent=True):
        assert entered == ["cuda:1", "stream"]
        assert waits == [(own, usual)]
    assert waits == [(own, usual), (usual, own)]  # before its memory is used again
    with on_device(torch.device("cuda:1")), on_device(CPU):
        assert entered == ["cuda:1"]
    assert not entered


class FakeMemory:
    """Fake of a GPU of 80 GiB, of which this process has reserved 60 GiB and uses 20 GiB."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fraction: float = 1.0) -> None:
        self.fractions, self.reserved = [fraction], 60 * GIB
        for name in ("empty_cache", "mem_get_info", "memory_reserved"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _device: self.fractions[-1])
        monkeypatch.setattr(
            torch.cuda, "set_per_process_memory_fraction", lambda share, _device: self.fractions.append(share)
        )

    def empty_cache(self) -> None:
        self.reserved = 20 * GIB

    def mem_get_info(self, device: torch.device) -> tuple[int, int]:
        return 15 * GIB, 80 * GIB

    def memory_reserved(self, device: torch.device) -> int:
        return self.reserved


def test_limited_memory_is_what_is_used_and_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FakeMemory(monkeypatch)
    with limited_memory(CUDA, 3 * GIB):
        assert memory.fractions[-1] * 80 * GIB == pytest.approx(23 * GIB + SLACK_BYTES)
    assert memory.fractions[-1] == 1
    assert GIB <= SLACK_BYTES <= 2 * GIB


@pytest.mark.parametrize("before", [0.9, 0.475, 0.1])
def test_limited_memory_is_never_above_the_processs_share(before: float, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FakeMemory(monkeypatch, before)
    with limited_memory(CUDA, 50 * GIB):
        assert memory.fractions[-1] == min(before, 71 / 80)
    assert memory.fractions[-1] == before


def test_limit_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FakeMemory(monkeypatch, 0.5)

    def fails() -> None:
        with limited_memory(CUDA, GIB):
            assert memory.fractions[-1] < 0.5
            raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError):
        fails()
    assert memory.fractions[-1] == 0.5


def test_nothing_is_captured_or_limited_by_another_thread_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the limit of one thread would be restored by the other as the one before."""
    FakeMemory(monkeypatch)
    with ThreadPoolExecutor(1) as other:

        def is_free() -> bool:
            free = capture_lock.acquire(blocking=False)
            if free:
                capture_lock.release()
            return free

        with limited_memory(CUDA, GIB):
            assert not other.submit(is_free).result()
        assert other.submit(is_free).result()


def test_memory_of_a_cpu_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FakeMemory(monkeypatch)
    with limited_memory(CPU, GIB):
        pass
    assert run_in_limited_memory(CPU, GIB, lambda: 3) == 3
    assert (memory.fractions, memory.reserved) == ([1.0], 60 * GIB)


def test_work_that_fails_in_limited_memory_is_repeated_without_the_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory, seen = FakeMemory(monkeypatch), list[float]()

    def work() -> int:
        seen.append(memory.fractions[-1])
        if seen[-1] < needed:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 30 GiB.")
        return len(seen)

    needed = 0.0
    assert run_in_limited_memory(CUDA, 3 * GIB, work) == 1
    assert seen == [24 / 80]
    assert not caplog.records
    needed = 1.0
    assert run_in_limited_memory(CUDA, 3 * GIB, work) == 3
    assert seen[1:] == [24 / 80, 1]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    needed = 2.0
    with pytest.raises(torch.OutOfMemoryError):
        run_in_limited_memory(CUDA, 3 * GIB, work)
    assert memory.fractions[-1] == 1


def test_large_gpu_gives_convolutions_little_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch chooses: the first algorithm whose workspace can be allocated."""
    memory = FakeMemory(monkeypatch)
    workspaces = [19 * GIB, SLACK_BYTES // 2, 0]

    def convolve() -> int:
        activations = 3 * GIB
        return next(
            each for each in workspaces if memory.reserved + activations + each <= memory.fractions[-1] * 80 * GIB
        )

    memory.empty_cache()
    assert convolve() == 19 * GIB
    assert run_in_limited_memory(CUDA, 3 * GIB, convolve) == SLACK_BYTES // 2


def test_available_memory_respects_the_process_share(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [1.0]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (70 * GB, 80 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 9 * GB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: 8 * GB)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _index: shares[0])
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, index: shares.insert(index, share))
    assert available_memory("cuda:0") == 71 * GB
    limit_gpu_memory(0.5)
    assert available_memory("cuda:0") == 30 * GB  # 95 % of a half, minus 8 GB in use


def test_available_memory_does_not_count_a_limit_of_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the end of `limited_memory`, such as while a graph is captured."""
    limits = [0.2]

    @contextmanager
    def lock() -> Iterator[None]:
        limits.append(1.0)
        yield

    monkeypatch.setattr(module, "capture_lock", lock())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (70 * GB, 80 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 8 * GB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: 8 * GB)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _index: limits[-1])
    assert available_memory("cuda:0") == 70 * GB


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretend that there is a GPU and no engine, and collect no garbage. Returns what `release_memory` has freed."""
    freed: list[str] = []
    monkeypatch.setattr(module, "gc", MagicMock(**{"get_freeze_count.return_value": 0}))
    monkeypatch.setattr(module, "_users", WeakSet())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append("cache"))
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: freed.append("workspaces"), raising=False)
    return freed


def test_workspaces_of_cublas_are_freed_with_the_last_engine(freed: list[str]) -> None:
    """Its graphs and threads would still use them."""

    class User:
        pass

    engine, loop = User(), User()
    for user in (engine, loop):
        note_gpu_user(user)
    release_memory()
    del engine
    release_memory()
    assert freed == ["cache", "cache"]
    del loop
    del user
    release_memory()
    assert freed == ["cache", "cache", "workspaces", "cache"]


def test_build_of_pytorch_without_cublas_has_no_workspaces(freed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_cuda_clearCublasWorkspaces")
    release_memory()
    assert freed == ["cache"]


@pytest.mark.usefixtures("shared_weights")
def test_engine_and_its_threads_use_gpus(freed: list[str]) -> None:
    """The threads serve open requests even if the engine is no longer referred to."""
    with closing(Engine.load(MINIATURE, "cpu", slots=1, graphs="off")) as engine:
        assert {engine, engine._pipeline.loop} <= set(module._users)


@pytest.mark.gpu
def test_memory_cached_by_pytorch_is_available() -> None:
    before = available_memory("cuda")
    assert before is not None
    held = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
    assert (reserved_memory("cuda") or 0) >= held.nbytes
    taken = available_memory("cuda")
    del held
    freed = available_memory("cuda")
    assert taken is not None
    assert freed is not None
    assert freed - taken == pytest.approx(256 * 2**20, rel=0.05)
