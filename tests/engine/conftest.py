"""The miniature release with the tensors that the public reference computed from it (see its README)."""

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.families.s2.dual_ar import DualAR, load_dual_ar
from tests.paths import MINIATURE


def golden(name: str) -> dict[str, Tensor]:
    return load_file(MINIATURE / f"{name}_golden.safetensors")


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MINIATURE / f"{name}_cases.json").read_text())
    return found


@pytest.fixture(scope="session")
def miniature() -> DualAR:
    return load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu")
