"""Data-dependent initialisation of a new codec.

With PyTorch's defaults the codec does not train, because its latents hardly vary over time. Here the output of every
convolution for speech has unit deviation (layer-sequential unit-variance, Mishkin and Matas 2016).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.codec.codec import Codec
from engine.codec.convolutions import CausalConv1d, ConvNeXtBlock, ResidualUnit
from engine.codec.transformer import LayerScale
from training.codec.quantizer import codebooks_of, decode_latents, quantize

_RESIDUAL_DEVIATION = 0.3  # of a residual unit's branch
_AUDIO_DEVIATION = 0.15
_BACK_PROJECTION = 0.12
# Scale of transformer and ConvNeXt branches; with the engine's defaults they contribute too late.
_BRANCH_SCALE = 0.1

Conv = nn.Conv1d | nn.ConvTranspose1d


@torch.no_grad()
def initialise(codec: Codec, audio: Tensor, generator: torch.Generator) -> None:
    """Initialise the convolutions, projections and branch scales of a new codec from audio `[B, 1, n]`."""
    back = {codebook.out_proj for codebook in codebooks_of(codec.quantizer)}
    wanted = _deviations(codec)
    hooks = []
    for module in codec.modules():
        if isinstance(module, ConvNeXtBlock | LayerScale):
            module.gamma.fill_(_BRANCH_SCALE)
        elif isinstance(module, Conv):
            _draw(module, generator)
            if module in back:
                module.weight.mul_(_BACK_PROJECTION)
            else:
                hooks.append(module.register_forward_hook(_scaling_to(wanted.get(module, 1.0))))
    _spread_projections(codec, generator)
    quantizer = codec.quantizer
    z = quantizer.pre_module(quantizer.downsample(codec.encoder(audio)))
    latents = quantize(quantizer, z, generator, share=0.0).latents
    decode_latents(codec, latents)
    for hook in hooks:
        hook.remove()


def _draw(conv: Conv, generator: torch.Generator) -> None:
    conv.weight.copy_(torch.randn(conv.weight.shape, generator=generator))
    assert conv.bias is not None
    conv.bias.zero_()


def _spread_projections(codec: Codec, generator: torch.Generator) -> None:
    """Initialise each codebook's input projection orthogonally."""
    for codebook in codebooks_of(codec.quantizer):
        weight = torch.empty(codebook.in_proj.weight.shape[:2])
        codebook.in_proj.weight.copy_(nn.init.orthogonal_(weight, generator=generator)[..., None])


def _deviations(codec: Codec) -> dict[nn.Module, float]:
    """Return the target deviations of the convolutions that should not have unit deviation."""
    found: dict[nn.Module, float] = {}
    for module in codec.modules():
        if isinstance(module, ResidualUnit):
            found[_last_conv(module)] = _RESIDUAL_DEVIATION
    return found | {_last_conv(codec.decoder): _AUDIO_DEVIATION}


def _last_conv(module: nn.Module) -> nn.Module:
    return [part.conv for part in module.modules() if isinstance(part, CausalConv1d)][-1]


def _scaling_to(deviation: float) -> Callable[[Conv, tuple[Tensor, ...], Tensor], Tensor]:
    """Return a forward hook that scales a convolution with zero bias so that its output has `deviation`."""

    def hook(conv: Conv, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        factor = deviation / output.std().clamp(min=1e-6)
        conv.weight.mul_(factor)
        return output * factor

    return hook
