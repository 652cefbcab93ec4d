"""`torch.compile` for the parts of a block that do not touch the key/value cache.

Compiled parts run fewer, larger kernels, at the price of a slower start; compiled code is kept in the user's cache
folder for the next start. Needs a C++ compiler and, on GPUs, Triton, which comes with PyTorch.
"""

import os
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from engine.files.cache_folder import cache_folder
from engine.models.transformer import Transformer, TransformerBlock

# Each stack, part and number of rows is compiled separately; PyTorch stops after 8 variants by default.
_VARIANTS = 256


def compile_blocks(stack: Transformer) -> None:
    """Compile a stack's norms, projections and feed-forwards for single steps, in place, on first use.

    Prompts run uncompiled: each length would be compiled separately.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "compiled"))
    torch.compiler.config.recompile_limit = max(torch.compiler.config.recompile_limit, _VARIANTS)
    for module in stack.layers:
        block = cast(TransformerBlock, module)
        attention: Any = block.attention
        attention.project = _compiled_for_steps(attention.project)
        for part in (block.attention_norm, block.ffn_norm, block.feed_forward):
            _compile(part)
    _compile(stack.norm)


def _compile(part: nn.Module) -> None:
    part.forward = _compiled_for_steps(part.forward)


def _compiled_for_steps(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled = torch.compile(function, dynamic=False)

    def chosen(x: Tensor, *more: Tensor) -> Any:
        return compiled(x, *more) if x.shape[1] <= 2 else function(x, *more)

    return chosen
