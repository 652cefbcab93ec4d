"""Linear layers with int8 weights for CPUs: a step reads a quarter of the bytes of fp32. Products are PyTorch's own
(FBGEMM on x86, QNNPACK on Arm).

These products take 7-bit activations with one scale for the whole input, which is too coarse for a transformer and
would make the rows of a batch depend on each other. Here every row has its own scale and is split in two: 7 bits, and
7 bits of the remainder. Both are rows of one product, so weights, whose reading takes most of a step's time, are read
once. Sums are integers, so a row has the same result in any batch.
"""

from functools import cache

import torch
from torch import Tensor, nn

_WEIGHT_MAX = 127
_MAX = 63  # of an activation's halves, as integers
_PARTS = 126  # steps per 1 in the second half, which holds remainders of at most ½
_MIN_SCALE = 1e-30  # scale of a row of zeros
# Tensors, because PyTorch would convert a number at every use.
_one_by_max, _parts, _least = (
    torch.tensor(value, dtype=torch.float32, device="cpu") for value in (1 / _MAX, _PARTS, _MIN_SCALE)
)

# Number of steps from the smallest to the largest activation, by library.
_STEPS = {"fbgemm": 127, "qnnpack": 255}


class Int8Linear(nn.Module):
    """A linear layer without gradients: int8 weights with a scale for each output, activations of 14 bits.

    nbytes: size of the weights.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """layer: fp32, on a CPU; requires `is_available`."""
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight.detach()
        library = next(filter(_is_supported, _STEPS))
        self._reduced = library == "fbgemm"  # QNNPACK uses all 8 bits, and warns if 7 are requested
        self.packed = _pack(weight, library)
        self.nbytes = packed_bytes(self.out_features, self.in_features)
        self.bias = layer.bias
        self._extremes = _extremes(self.in_features, _STEPS[library])

    def forward(self, x: Tensor) -> Tensor:
        """Run x fp32 `[B, D]` or `[B, T, D]` → `[B, E]` or `[B, T, E]`."""
        rows = x.flatten(0, -2)
        count = len(rows)
        largest = torch.linalg.vector_norm(rows, float("inf"), dim=-1, keepdim=True)
        scales = torch.addcmul(_least, largest, _one_by_max)
        whole = rows / scales
        first = whole.round()
        second = (whole - first).mul_(_parts)
        # A row that is not finite has only zeros here, and NaN or infinity as its scale: its results are NaN, and it
        # spoils no other row.
        halves = torch.cat((first, second, self._extremes)).nan_to_num_()
        products = torch.ops.quantized.linear_dynamic(halves, self.packed, self._reduced)
        out: Tensor = torch.add(products[:count], products[count : 2 * count], alpha=1 / _PARTS).mul_(scales)
        if self.bias is not None:
            out += self.bias
        return out if x.dim() == 2 else out.view(len(x), -1, self.out_features)


def is_available() -> bool:
    """Return whether this PyTorch has int8 products for its CPU."""
    return any(map(_is_supported, _STEPS))


def packed_bytes(rows: int, columns: int) -> int:
    """Return the bytes of a weight `[rows, columns]` in an `Int8Linear`, with a scale, zero point and sum per row."""
    return rows * columns + rows * (torch.float32.itemsize + 2 * torch.int32.itemsize)


@cache
def no_weights() -> torch.ScriptObject:
    """Return the packed weights of a layer of two weights, which take the place of weights that are dropped."""
    return _pack(torch.ones(1, 2, dtype=torch.float32, device="cpu"), next(filter(_is_supported, _STEPS)))


@cache
def _extremes(columns: int, steps: int) -> Tensor:
    """Return a row `[1, columns]` that makes a library's scale (the input's range divided by its steps) 1."""
    row = torch.zeros(1, columns, dtype=torch.float32, device="cpu")
    row[0, 0], row[0, -1] = steps / 2, -steps / 2
    return row


def _pack(weight: Tensor, library: str) -> torch.ScriptObject:
    scales = weight.abs().amax(dim=1).double().clamp(min=_MIN_SCALE) / _WEIGHT_MAX
    zeros = torch.zeros(len(weight), dtype=torch.long)
    stored = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    chosen, torch.backends.quantized.engine = torch.backends.quantized.engine, library
    try:
        packed: torch.ScriptObject = torch.ops.quantized.linear_prepack(stored, None)
    finally:
        torch.backends.quantized.engine = chosen
    return packed


@cache
def _is_supported(library: str) -> bool:
    """Return whether weights can be packed: PyTorch 2.11 for Arm lists FBGEMM, but cannot pack for it."""
    if library not in torch.backends.quantized.supported_engines:
        return False
    try:
        _pack(torch.ones(1, 2, dtype=torch.float32, device="cpu"), library)
    except RuntimeError:
        return False
    return True
