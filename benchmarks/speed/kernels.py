"""Kernels and bytes of one frame of one listener, counted without a GPU.

    python -m benchmarks.speed.kernels [--positions 512]

S2-Pro's sizes, with weights in bf16 or 8 bits, on meta tensors. Every operation that is not a view counts as one kernel
that moves the bytes of its tensors; a lookup moves only the rows that it reads. The plain frame attends to a masked
span and widens 8-bit weights before each product. The fused frame attends to exact lengths and widens nothing. The
counts say nothing about time.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.memory.sizes import Sizes, random_dual_ar, s2_pro
from benchmarks.speed._shared import Table, keep, parser
from engine.models.frame_step import DecodeState, FrameStep
from engine.models.fused import FusedStepBackend, sampling_kernels
from engine.models.kv_cache import StaticRowsView
from engine.models.quantization import Precision, quantize_block

META = torch.device("meta")
# Operations that only look up rows of their first tensor.
_LOOK_UPS = ("aten::embedding", "aten::index", "aten::index_select", "aten::index_put_", "aten::gather")
_FREE = ("aten::empty", "aten::new_empty", "aten::detach", "aten::lift_fresh", "aten::_unsafe_view")


@dataclass
class Counted:
    """Kernels launched and bytes moved by a frame. by_name: kernels of each kind."""

    by_name: dict[str, int] = field(default_factory=dict)
    moved: int = 0

    @property
    def kernels(self) -> int:
        return sum(self.by_name.values())

    def add(self, name: str, moved: int) -> None:
        self.by_name[name] = self.by_name.get(name, 0) + 1
        self.moved += moved


class _Operations(TorchDispatchMode):
    def __init__(self, counted: Counted) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counted = counted

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Dispatch without `torch._disable_dynamo`, whose import takes seconds; nothing is compiled here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name, returns = func.name().partition(".")[0], func._schema.returns
        is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in returns)
        if not is_view and not name.startswith(_FREE):
            given = tree_leaves((args, kwargs or {}))
            self._counted.add(name, _bytes(given[1:] if name in _LOOK_UPS else given) + _bytes(tree_leaves(made)))
        return made


def _bytes(values: list[Any]) -> int:
    return sum(value.nbytes for value in values if isinstance(value, Tensor))


class _Launched:
    """Stand-in for a Triton kernel that counts the launch and each tensor argument once."""

    def __init__(self, counted: Counted, name: str, extent: Callable[[Tensor], int]) -> None:
        self._counted, self._name, self._extent = counted, name, extent

    def __getitem__(self, _grid: object) -> Callable[..., None]:
        def launch(*given: Any, **_options: Any) -> None:
            tensors = {id(value): value for value in given if isinstance(value, Tensor)}
            self._counted.add(self._name, sum(map(self._extent, tensors.values())))

        return launch


@contextmanager
def _counting(counted: Counted, positions: int) -> Iterator[None]:
    """Count within the `with` block. positions: number of positions that each row attends to."""
    # Imported here because `benchmarks.document` imports this module without Triton.
    from engine.models.kernels import attention, elementwise, products, sampling

    def attended(q: Tensor, k: Tensor, v: Tensor, *more: Any, **options: Any) -> Tensor:
        counted.add("attention", _bytes([q, q, k, v, *more]))
        return torch.empty(q.shape, dtype=q.dtype, device=META)

    def normed(x: Tensor, _shape: object, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
        counted.add("norm", _bytes([x, x, weight]))  # one kernel on a GPU, several on meta tensors
        return torch.empty(x.shape, dtype=x.dtype, device=META)

    def whole(tensor: Tensor) -> int:
        return tensor.nbytes

    def read(tensor: Tensor) -> int:
        """Return the bytes of a tensor; of a layer's cache, only those of the positions in use, and of a rotary table
        those of one position."""
        if tensor.dim() == 5:
            return tensor.nbytes * min(positions, tensor.shape[3]) // tensor.shape[3]
        return tensor.nbytes // tensor.shape[0] if tensor.dim() == 3 else tensor.nbytes

    stand_ins = [
        (elementwise, "_rms_norm", whole),
        (elementwise, "_gate", whole),
        (attention, "_attend", read),
        (attention, "_join", whole),
        (products, "_gemv_kernel", whole),
        (sampling, "_noise", whole),
        (sampling, "_draw", whole),
    ]
    patches: list[Any] = [
        patch.object(module, name, _Launched(counted, name, extent)) for module, name, extent in stand_ins
    ]
    patches += [patch.object(F, "scaled_dot_product_attention", attended), patch.object(F, "rms_norm", normed)]
    with _Operations(counted):
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in patches:
                each.stop()


@torch.no_grad()  # not inference mode, where copies and products are not decomposed
def count(
    positions: int, *, merged: bool, fused: bool, sampling: bool = False, precision: Precision = "bf16"
) -> Counted:
    """Count a frame at S2-Pro's sizes after `positions` positions.

    merged: whether w1 and w3 are one product. fused, sampling: whether blocks and sampling use fused kernels.
    """
    step, counted = meta_frame(s2_pro(), positions, merged, fused, sampling, precision), Counted()
    with _counting(counted, positions):
        step()
    return counted


def meta_frame(
    sizes: Sizes, positions: int, merged: bool, fused: bool, sampling: bool, precision: Precision
) -> Callable[[], None]:
    """Return a function that runs a frame of one listener on meta tensors; arguments as for `count`."""
    slow, fast = random_dual_ar(sizes.dual_ar, torch.bfloat16, META, seed=0)
    quantize_block(slow, precision, stack="slow")
    quantize_block(fast, precision, stack="fast")
    for stack in (slow, fast):
        if merged:
            stack.prepare_for_decoding()
        if fused:
            stack.step_backend = backend = FusedStepBackend(stack)
            stack.head_backend = backend.head
    if sampling:
        slow.sampling_backend = sampling_kernels()
    frame = FrameStep(slow, fast, sizes.residual_size)
    cache, state = slow.new_cache(1, positions), DecodeState.idle(1, slow, META)

    def step() -> None:
        noise = frame.noise(state, frame.candidates)
        semantic, hidden = frame.semantic(state, StaticRowsView(cache, state.position, positions), noise)
        codes = frame.codes(state.options, hidden, semantic, noise)
        frame.next_state(state, semantic, codes)

    return step


def run(positions: int) -> dict[str, Any]:
    """Count all variants of a frame."""
    merged, fused = {"merged": True, "fused": False}, {"merged": True, "fused": True}
    variants: dict[str, dict[str, Any]] = {
        "bf16, plain, w1 and w3 apart": {"merged": False, "fused": False},
        "bf16, plain": merged,
        "bf16, fused blocks": fused,
        "bf16, fused blocks and draws": {**fused, "sampling": True},
        "int8, plain": {**merged, "precision": "int8"},
        "int8, fused blocks and draws": {**fused, "sampling": True, "precision": "int8"},
    }
    found = {}
    for name, variant in variants.items():
        counted = count(positions, **variant)
        found[name] = {"kernels": counted.kernels, "bytes": counted.moved, "by_name": counted.by_name}
    return {"device": "meta", "positions": positions, "variants": found}


def table(found: Mapping[str, Any]) -> Table:
    """Return the table that is printed and published."""
    rows = [[name, f"{of['kernels']:,}", f"{of['bytes'] / 1e9:.3f}"] for name, of in found["variants"].items()]
    title = f"A frame of S2-Pro behind {found['positions']} positions, counted on meta tensors"
    return Table(title, ["", "kernels", "GB moved"], rows)


def main() -> None:
    """Count, print the table and save the figures."""
    made = parser(__doc__)
    made.add_argument("--positions", type=int, default=512)
    found = run(made.parse_args().positions)
    table(found).show()
    keep("kernels", found)


if __name__ == "__main__":
    main()
