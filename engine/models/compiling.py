"""`torch.compile` for the parts of a block that only compute: fewer, larger kernels, for a slower start.

What touches the key/value cache stays as it is, so that the same code runs with and without. Needs a C++ compiler and,
as PyTorch brings it on GPUs, Triton.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from engine.models.layers import Block, Transformer

# Every stack, part and number of rows is compiled for itself; PyTorch gives up after 8 by default.
_VARIANTS = 256


def compile_blocks(stack: Transformer) -> None:
    """Compile a stack's norms, projections and feed-forwards for single steps, in place; each when it is first run.

    Prompts go the usual way: their lengths differ, and each would be compiled anew.
    """
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _VARIANTS)
    for module in stack.layers:
        block = cast(Block, module)
        attention: Any = block.attention
        attention.project = _for_steps(attention.project)
        for part in (block.attention_norm, block.ffn_norm, block.feed_forward):
            _compile(part)
    _compile(stack.norm)


def _compile(part: nn.Module) -> None:
    part.forward = _for_steps(part.forward)


def _for_steps(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled = torch.compile(function, dynamic=False)

    def chosen(x: Tensor, *more: Tensor) -> Any:
        return compiled(x, *more) if x.shape[1] <= 2 else function(x, *more)

    return chosen
