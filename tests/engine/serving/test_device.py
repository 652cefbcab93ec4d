"""The engine sets torch's global settings regardless of their previous values."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from engine.serving import device as module
from engine.serving.device import SWITCH_SECONDS, is_lost, on_device, own_stream, prepare_device, share_cores

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
    module._cores.cache_clear()
    try:
        for small in (False, True, False, False):
            share_cores(CPU, small=small)
        share_cores(CUDA, small=False)
    finally:
        module._cores.cache_clear()
    assert threads == [8, 4, 1, 4, 4]


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
