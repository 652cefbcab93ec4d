"""The fused kernels compile for GPUs, on a machine without one."""

import os
import subprocess
import sys

import pytest

from tests.paths import ROOT

pytest.importorskip("triton", reason="Triton comes with torch on Linux only")

KERNELS = {"_attend", "_draw", "_gate", "_join", "_noise", "_rms_norm", "_gemv_kernel", "_gemm_kernel"}
KERNELS |= {"_convolve", "_extend"}  # of the codec


def test_kernels_compile_for_ampere_and_hopper(pytestconfig: pytest.Config) -> None:
    """Triton's interpreter accepts code that its compiler does not. Types and sizes are those of S2-Pro.

    Kernels that have not changed since they were compiled, which takes most of the time, are read from pytest's cache.
    """
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("triton")
    pytest.importorskip("torchao.quantization", reason="torchao is an optional package")
    found = subprocess.run(
        [sys.executable, "-m", "tests.engine.models.kernel_compilation"],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.splitlines()) == {f"{name} sm_{number}" for name in KERNELS for number in (86, 90)}
