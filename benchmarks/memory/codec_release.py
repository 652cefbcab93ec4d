"""A codec file with S2-Pro's sizes and layout and random weights, for measurements without the release."""

from pathlib import Path

import torch
from torch import Tensor, nn

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.codec.transformer import WindowedTransformer

# Positions of the masks and rotary tables that the release stores beside its weights: conv encoder, quantizer.
_ENCODER_POSITIONS = 16_384
_QUANTIZER_POSITIONS = 4_096


def write_release(path: Path, config: CodecConfig, seed: int = 0) -> None:
    """Write `codec.pth` in the release's layout: weight norm unfolded, with masks and rotary tables."""
    torch.manual_seed(seed)
    with torch.device("meta"):
        codec = Codec(config)
    codec.to_empty(device="cpu")
    _fill(codec)
    state = {}
    for name, weight in codec.state_dict().items():
        state.update(_unfolded(name, weight))
    for name, module in codec.named_modules():
        if isinstance(module, WindowedTransformer):
            state.update(_tables(name, module))
    torch.save(state, path)


@torch.no_grad()
def _fill(codec: Codec) -> None:
    """Draw weights that keep the signal's size from layer to layer. If it shrank, all codes would be the same."""
    for name, parameter in codec.named_parameters():
        if name.endswith("alpha") or "norm.weight" in name:
            parameter.fill_(1.0)
        elif name.endswith("gamma"):
            parameter.fill_(0.3)
        elif name.endswith("bias"):
            parameter.zero_()
        else:
            parameter.normal_()
            if "codebook" not in name:
                parameter.div_((parameter[0].numel()) ** 0.5)
    for module in codec.modules():
        if isinstance(module, nn.ConvTranspose1d):
            taps = module.in_channels * module.kernel_size[0] / module.stride[0]
            module.weight.mul_(module.weight[0].numel() ** 0.5 / taps**0.5)
    for name, parameter in codec.named_parameters():
        if name.endswith("block.3.conv.weight"):  # last convolution of a residual unit
            parameter.mul_(0.3)
    codec.decoder.model.get_parameter("6.conv.weight").mul_(0.1)


def _unfolded(name: str, weight: Tensor) -> dict[str, Tensor]:
    convolution = name.endswith(".conv.weight") and name.startswith(("encoder.", "decoder."))
    projection = name.endswith("_proj.weight")
    if not convolution and not projection:
        return {name: weight}
    norm = torch.linalg.vector_norm(weight, dim=(1, 2), keepdim=True)
    if projection:
        return {f"{name}_g": norm, f"{name}_v": weight}
    stem = f"{name.removesuffix('.weight')}.parametrizations.weight.original"
    return {f"{stem}0": norm, f"{stem}1": weight}


def _tables(name: str, module: WindowedTransformer) -> dict[str, Tensor]:
    positions = _ENCODER_POSITIONS if name.startswith("encoder.") else _QUANTIZER_POSITIONS
    return {
        f"{name}.causal_mask": torch.ones(positions, positions, dtype=torch.bool).tril_(),
        f"{name}.freqs_cis": torch.zeros(positions, module.config.head_dim // 2, 2, dtype=torch.bfloat16),
    }
