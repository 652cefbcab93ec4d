"""The check of faster code needs little memory and finds wrong keys and values."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.config import TransformerConfig
from engine.models import agreement
from engine.models.agreement import step_difference
from engine.models.kv_cache import KVCache, KVView, StaticRowsView
from engine.models.layers import Transformer

HEADS, WIDTH = 4, 64


class _Allocated(TorchDispatchMode):
    """Counts the bytes of all tensors that operations create, freed or not."""

    nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in given:
                self.nbytes += leaf.untyped_storage().nbytes()
        return made


def stack(layers: int) -> Transformer:
    config = TransformerConfig(
        vocab_size=8,
        n_layer=layers,
        n_head=HEADS,
        n_local_heads=HEADS,
        head_dim=WIDTH,
        dim=32,
        intermediate_size=32,
        max_seq_len=4096,
        attention_qk_norm=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Transformer(config).requires_grad_(False)


def rows_view(cache: KVCache, positions: Sequence[int]) -> StaticRowsView:
    return StaticRowsView(cache, torch.tensor(positions), cache.positions)


class _Run:
    """Runs the plain blocks, then damages the cache."""

    def __init__(self, made: Transformer, damage: bool = False) -> None:
        self._made, self._damage = made, damage

    def accepts(self, view: KVView) -> bool:
        return True

    def __call__(self, x: Tensor, view: Any) -> Tensor:
        out = self._made.run_plain(x, view)
        if self._damage:
            view.next_rows(1)[0][-1, 1, 3, 0, 12] = 9.0
        return out


@pytest.mark.parametrize("layers", [2, 12])
def test_memory_of_a_check_is_a_few_times_that_of_one_layer(layers: int) -> None:
    made = stack(layers)
    with _Allocated() as allocated:
        assert step_difference(made, _Run(made), rows_view, one_layer=True) == 0
    count = len(agreement._POSITIONS)
    one_layer = 2 * count * HEADS * (max(agreement._POSITIONS) + 1) * WIDTH * 4
    activations = layers * count * 40 * HEADS * WIDTH * 4
    assert allocated.nbytes < 6 * one_layer + activations


@pytest.mark.parametrize("one_layer", [False, True])
def test_damaged_keys_and_values_are_found(one_layer: bool) -> None:
    made = stack(2)
    assert step_difference(made, _Run(made), rows_view, one_layer=one_layer) == 0
    assert step_difference(made, _Run(made, damage=True), rows_view, one_layer=one_layer) > 1e-4
