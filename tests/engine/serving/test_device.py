"""The engine sets torch's global settings regardless of their previous values."""

from collections.abc import Iterator

import pytest
import torch

from engine.serving import device as module
from engine.serving.device import own_stream, prepare_device, share_cores

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


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


def test_own_stream_is_none_on_cpu() -> None:
    with own_stream(CPU, urgent=True) as stream:
        assert stream is None
