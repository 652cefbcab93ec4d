"""Weight-only quantization: on CPUs by `Int8Linear`, on GPUs through torchao (an optional package).

Only the linear layers inside the blocks are quantized. Embeddings, norms and heads are not: only the used rows of a
head are multiplied, the tied head is the token table, and `fast_project_in` is small.

int8 and fp8 have one scale per row. torchao multiplies int8 weights before it scales, which can overflow fp16; with
fp16 activations they are therefore scaled in groups of 128 columns, which torchao applies first. int4 is scaled in
groups of 64 columns and packed for PyTorch's own int4 kernel, which pads columns to multiples of 1,024. A layer whose
columns do not fill whole groups, whose rows do not fill the kernel's tiles, or that would be no smaller, uses int8. The
Fast AR never has fewer than 8 bits: its errors are audible, and no later frame corrects them.

Of torchao's formats, only int4 is faster than 16 bits without a compiler or fused kernels: int8 and fp8 weights are
widened before each product.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import nn

from engine.errors import DeviceUnavailable, InvalidOption
from engine.models.int8_linear import Int8Linear, packed_bytes
from engine.models.transformer import TransformerBlock

Precision = Literal["fp32", "fp16", "bf16", "int8", "int4", "fp8"]
StackName = Literal["slow", "fast"]

QUANTIZED: tuple[Precision, ...] = ("int8", "int4", "fp8")

_INT8_GROUP = 128
_INT4_GROUP = 64
_INT4_ROWS, _INT4_COLUMNS = 8, 1024  # size of the kernel's tiles
_AMPERE, _HOPPER = (8, 0), (9, 0)  # compute capabilities


@dataclass(frozen=True)
class Layout:
    """Storage of one weight: its format, and the columns that share a scale (None: the whole row).

    kind: `packed` is stored in an `Int8Linear`; the others are torchao's.
    """

    kind: Literal["packed", "int8", "int4", "fp8"]
    group: int | None = None

    def nbytes(self, rows: int, columns: int) -> int:
        """Return the bytes of a weight `[rows, columns]` with its scales and zero points."""
        if self.kind == "int4":
            rows, columns = _padded(rows, _INT4_ROWS), _padded(columns, _INT4_COLUMNS)
            return rows * columns // 2 + rows * (columns // _INT4_GROUP) * 4  # a scale and a zero point in bf16
        if self.kind == "packed":
            return packed_bytes(rows, columns)
        scales = rows * (columns // self.group if self.group else 1)
        return rows * columns + scales * (5 if self.kind == "int8" else 4)  # fp32; torchao's int8 adds a zero byte


def layouts(
    module: nn.Module, precision: Precision, *, stack: StackName, activations: torch.dtype
) -> dict[str, Layout]:
    """Return the layouts that `quantize_block` gives to weights of `module`, by name; works on the meta device too.

    Of a whole stack only the blocks have layouts.
    """
    if precision not in QUANTIZED:
        return {}
    found = {}
    blocks: dict[str, nn.Module] = {
        name: each for name, each in module.named_modules() if isinstance(each, TransformerBlock)
    }
    for prefix, block in (blocks or {"": module}).items():
        for name, layer in block.named_modules(prefix=prefix):
            layout = _layout(layer, precision, stack, activations) if isinstance(layer, nn.Linear) else None
            if layout is not None:
                found[f"{name}.weight"] = layout
    return found


def _layout(layer: nn.Linear, precision: Precision, stack: StackName, activations: torch.dtype) -> Layout | None:
    rows, columns = layer.out_features, layer.in_features
    if precision == "fp8":
        return Layout("fp8")
    if precision == "int8" and activations == torch.float32:
        return Layout("packed")
    if activations == torch.float16:
        return Layout("int8", _INT8_GROUP) if columns % _INT8_GROUP == 0 else None
    int8, int4 = Layout("int8"), Layout("int4", _INT4_GROUP)
    aligned = columns % _INT4_GROUP == 0 and rows % _INT4_ROWS == 0
    smaller = int4.nbytes(rows, columns) < int8.nbytes(rows, columns)
    return int4 if precision == "int4" and stack == "slow" and aligned and smaller else int8


def check_precision(precision: Precision, device: torch.device | str, activations: torch.dtype) -> None:
    """Check that weights of this precision can be created and used on `device`.

    Raises DeviceUnavailable for fp8 before Hopper and for int4 without bf16 on a GPU (compute capability 8.0), and
    InvalidOption if torchao is needed and missing.
    """
    if precision not in QUANTIZED or _packs(precision, torch.device(device), activations):
        return
    capability = _capability(torch.device(device))
    if precision == "fp8" and capability < _HOPPER:
        raise DeviceUnavailable("engine.no_fp8")
    if precision == "int4" and (capability < _AMPERE or activations != torch.bfloat16):
        raise DeviceUnavailable("engine.no_int4")
    _torchao()


def quantize_block(module: nn.Module, precision: Precision, *, stack: StackName) -> None:
    """Quantize the linear layers of a block, or of any other part of a stack, in place, as `layouts` says.

    Activations have the dtype that the weights have now. fp32, fp16 and bf16 change nothing. w1 and w3 of the
    feed-forward are merged first; the rows of a weight have scales of their own. int8 weights with fp32 activations on
    a CPU become `Int8Linear`. Raises as `check_precision` does.
    """
    if precision not in QUANTIZED:
        return
    weight = next(module.parameters())
    check_precision(precision, weight.device, weight.dtype)
    packs = _packs(precision, weight.device, weight.dtype)
    for each in module.modules():
        if isinstance(each, TransformerBlock):
            each.feed_forward.merge()  # norms are not folded in: their weights would widen the range of a row
    for name, layout in layouts(module, precision, stack=stack, activations=weight.dtype).items():
        path = name.removesuffix(".weight")
        layer = cast(nn.Linear, module.get_submodule(path))
        with torch.no_grad():
            if packs:
                module.set_submodule(path, Int8Linear(layer))
            else:
                _torchao().quantize_(layer, _config(layout))


def _packs(precision: Precision, device: torch.device, activations: torch.dtype) -> bool:
    return precision == "int8" and device.type == "cpu" and activations == torch.float32


def _config(layout: Layout) -> Any:
    ao = _torchao()
    settings: dict[str, Any] = {"set_inductor_config": False}  # true would set it for the whole process
    if layout.kind == "fp8":
        return ao.Float8WeightOnlyConfig(**settings)
    if layout.kind == "int4":
        return ao.Int4WeightOnlyConfig(group_size=layout.group, int4_packing_format="tile_packed_to_4d", **settings)
    return ao.Int8WeightOnlyConfig(granularity=ao.PerGroup(layout.group) if layout.group else ao.PerRow(), **settings)


def _torchao() -> Any:
    try:
        from torchao import quantization
    except ImportError:
        raise InvalidOption("engine.no_torchao") from None
    return quantization


def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)


def _padded(count: int, unit: int) -> int:
    return -(-count // unit) * unit
