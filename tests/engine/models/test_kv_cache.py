"""The key/value cache takes memory as slots are used."""

import sys
from pathlib import Path

import pytest
import torch

from engine.models.kv_cache import KVCache


def resident_bytes() -> int:
    """Return the memory that this process has in use."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_unused_slots_take_no_memory(dtype: torch.dtype) -> None:
    before = resident_bytes()
    cache = KVCache(layers=1, slots=64, heads=2, head_dim=64, positions=4096, dtype=dtype)
    assert cache.buffer.dtype == dtype
    assert cache.buffer.data_ptr() % 64 == 0, "as PyTorch's own: rounding may depend on it"
    cache.buffer[:, :, 3].fill_(1)
    assert resident_bytes() - before < cache.buffer.nbytes // 8
    assert not cache.buffer[:, :, 2].any()
