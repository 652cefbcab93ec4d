"""The check of faster code needs little memory and finds wrong keys and values."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.families.s2.dual_ar import load_dual_ar
from engine.models import agreement
from engine.models.agreement import (
    TOLERANCE,
    frame_difference,
    head_difference,
    largest,
    prompt_difference,
    step_difference,
)
from engine.models.config import TransformerConfig
from engine.models.kv_cache import KVCache, KVView, StaticPromptView, StaticRowsView
from engine.models.stacks import FastStack
from engine.models.transformer import Transformer
from tests.paths import MINIATURE

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


@pytest.fixture
def small_fast() -> FastStack:
    return load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu").fast


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
    with _Allocated() as allocated:  # type: ignore[no-untyped-call]
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


class _Spoils(_Run):
    """Runs the plain blocks, then spoils what they return or write in one of several runs, the first or the last."""

    def __init__(self, made: Transformer, spoil: Callable[[Tensor, Any], None], run: int = 0) -> None:
        super().__init__(made)
        self._spoil, self._left = spoil, run

    def __call__(self, x: Tensor, view: Any) -> Tensor:
        out = super().__call__(x, view).clone()
        if self._left == 0:
            self._spoil(out, view)
        self._left -= 1
        return out


def spoil_output(out: Tensor, view: Any) -> None:
    out[-1, -1, 3] = math.nan


def spoil_keys(out: Tensor, view: Any) -> None:
    """Spoil a key of the position 300, which slot 0 has written."""
    view.next_rows(1)[0][-1, 0, 0, 1, 300, 5] = math.nan


def spoil_other_position(out: Tensor, view: Any) -> None:
    view.next_rows(1)[0][-1, 1, 3, 0, 12] = math.nan


@pytest.mark.parametrize("spoil", [spoil_output, spoil_keys, spoil_other_position])
def test_nan_anywhere_in_a_step_is_a_difference(spoil: Callable[[Tensor, Any], None]) -> None:
    """Python's `max(0.01, nan)` is 0.01."""
    made = stack(2)
    assert math.isnan(step_difference(made, _Spoils(made, spoil), rows_view))


def test_nan_in_a_prompt_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a key that later positions of the prompt do not read."""
    made, usual = stack(2), StaticPromptView.attend

    def view(cache: KVCache, slot: int, positions: Sequence[int]) -> StaticPromptView:
        slots, rows, end = (torch.tensor(each) for each in ([slot], positions, [positions[-1] + 1]))
        return StaticPromptView(cache, slots, rows, end, cache.positions)

    def spoiled(self: StaticPromptView, *given: Any) -> Tensor:
        out = usual(self, *given)
        self._buffer[-1, 0, 1, 0, 28] = math.nan
        return out

    assert prompt_difference(made, view) <= TOLERANCE[torch.float32]
    monkeypatch.setattr(StaticPromptView, "attend", spoiled)
    assert math.isnan(prompt_difference(made, view))


@pytest.mark.parametrize("run", [0, 1])
def test_nan_in_a_pass_of_a_frame_is_a_difference(run: int, small_fast: FastStack) -> None:
    assert frame_difference(small_fast, _Run(small_fast)) <= TOLERANCE[torch.float32]
    assert math.isnan(frame_difference(small_fast, _Spoils(small_fast, spoil_output, run)))


def test_nan_in_a_head_is_a_difference() -> None:
    made = stack(1)
    assert math.isnan(head_difference(made, lambda x, head: made.multiply_normed(x, head) * math.nan))


@pytest.mark.parametrize("values", [(math.nan, 0.5), (0.5, math.nan), (0.0, math.nan, 0.5), (math.nan,)])
def test_largest_of_several_with_nan_is_nan(values: tuple[float, ...]) -> None:
    assert math.isnan(largest(*values))
    assert largest(0.5, 2.0, 1.0) == 2.0


class _WritesNothing(_Run):
    """Runs the plain blocks, then restores the cache."""

    def __call__(self, x: Tensor, view: Any) -> Tensor:
        buffer = view.next_rows(1)[0]
        before = buffer.clone()
        out = super().__call__(x, view)
        for layer, values in zip(buffer, before, strict=True):
            layer.copy_(values)
        return out


@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_run_that_writes_no_keys_and_values_is_found(dtype: torch.dtype, rows: int) -> None:
    """They are few among all of a cache, whose difference would be below the tolerance of bf16."""
    made = stack(2)
    for weight in made.parameters():  # and no buffers: a rotary table is complex
        weight.data = weight.data.to(dtype)
    assert step_difference(made, _Run(made), rows_view, one_layer=True, rows=rows) == 0
    assert step_difference(made, _WritesNothing(made), rows_view, one_layer=True, rows=rows) > 0.5
