"""The product of few rows with an int8 weight that is never widened in memory."""

import triton
import triton.language as tl
from torch import Tensor

MOST_ROWS = 8
_OUTPUTS, _COLUMNS = 16, 256


def int8_product(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply x `[B, D]`, B at most `MOST_ROWS`, by an int8 weight `[E, D]` of one scale `[E]` a row → `[B, E]`.

    The sum is fp32 and scaled before it is rounded. The twin is `F.linear(x, weight * scale)`. One row's result does
    not depend on the others.
    """
    rows, columns = x.shape
    outputs = weight.shape[0]
    out = x.new_empty(rows, outputs)
    # Rows side by side: the programs that read one tile of the weight run together and find it in the cache.
    _int8_product[(rows, triton.cdiv(outputs, _OUTPUTS))](
        x, weight, scale, x if bias is None else bias, out, outputs,
        WIDTH=columns, HAS_BIAS=bias is not None, OUTPUTS=_OUTPUTS, COLUMNS=_COLUMNS,
    )  # fmt: skip
    return out


@triton.jit
def _int8_product(
    x, weight, scale, bias, out, outputs,
    WIDTH: tl.constexpr, HAS_BIAS: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, output = tl.program_id(0), tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    present = output < outputs
    total = tl.zeros((OUTPUTS, COLUMNS), tl.float32)
    for start in range(0, WIDTH, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < WIDTH
        value = tl.load(x + row * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
        place = output.to(tl.int64)[:, None] * WIDTH + column[None, :]
        entry = tl.load(weight + place, mask=present[:, None] & inside[None, :], other=0)
        total += entry.to(tl.float32) * value[None, :]
    result = tl.sum(total, axis=1) * tl.load(scale + output, mask=present, other=0.0).to(tl.float32)
    if HAS_BIAS:
        result += tl.load(bias + output, mask=present, other=0.0).to(tl.float32)
    tl.store(out + row * outputs + output, result.to(out.dtype.element_ty), mask=present)
