"""A dual AR model like the bundled one, a twentieth of its size."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from engine.families.s2.config import DualARConfig
from training import export
from training.dual_ar import model


@contextmanager
def small_models() -> Iterator[None]:
    """Make training and export use small models."""
    with mock.patch.object(model, "bundled_config", _small), mock.patch.object(export, "bundled_config", _small):
        yield


_bundled = model.bundled_config


def _small(*sizes: int) -> DualARConfig:
    config = _bundled(*sizes)
    slow = replace(config.slow, n_layer=3, n_head=2, n_local_heads=1, head_dim=32, dim=64, intermediate_size=128)
    fast = replace(config.fast, n_layer=1, n_head=2, n_local_heads=1, head_dim=16, dim=32, intermediate_size=64)
    return replace(config, slow=slow, fast=fast)
