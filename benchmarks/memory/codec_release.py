"""A codec file with S2-Pro's sizes and layout and random weights, for measurements without the release."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.codec.transformer import WindowedTransformer

# Positions of the masks and rotary tables that the release stores beside its weights: conv encoder, quantizer.
_ENCODER_POSITIONS = 16_384
_QUANTIZER_POSITIONS = 4_096


def write_release(path: Path, config: CodecConfig) -> None:
    """Write `codec.pth` in the release's layout: weight norm unfolded, with masks and rotary tables."""
    torch.manual_seed(0)
    with torch.device("meta"):
        codec = Codec(config)
    codec.to_empty(device="cpu")
    drawn = spreads(codec)
    with torch.no_grad():
        for name, parameter in codec.named_parameters():
            parameter.normal_().mul_(drawn[name].deviation).add_(drawn[name].mean)
    state = {}
    for name, weight in codec.state_dict().items():
        state.update(_unfolded(name, weight))
    for name, module in codec.named_modules():
        if isinstance(module, WindowedTransformer):
            state.update(_tables(name, module))
    torch.save(state, path)


class Spread(NamedTuple):
    """Mean and standard deviation of a weight's values."""

    mean: float
    deviation: float


def spreads(codec: nn.Module) -> dict[str, Spread]:
    """Return how the weights of a codec or one of its views are drawn, by name.

    The signal keeps its size from layer to layer. If it shrank, all codes would be the same.
    """
    found = {}
    for name, parameter in codec.named_parameters():
        if name.endswith("alpha") or "norm.weight" in name:
            found[name] = Spread(1.0, 0.0)
        elif name.endswith("gamma"):
            found[name] = Spread(0.3, 0.0)
        elif name.endswith("bias"):
            found[name] = Spread(0.0, 0.0)
        else:
            found[name] = Spread(0.0, 1.0 if "codebook" in name else parameter[0].numel() ** -0.5)
    for name, module in codec.named_modules():
        if isinstance(module, nn.ConvTranspose1d):
            taps = module.in_channels * module.kernel_size[0] / module.stride[0]
            found[f"{name}.weight"] = Spread(0.0, taps**-0.5)
    for name, (mean, deviation) in found.items():
        if name.endswith("block.3.conv.weight"):  # last convolution of a residual unit
            found[name] = Spread(mean, 0.3 * deviation)
        elif name == "decoder.model.6.conv.weight":
            found[name] = Spread(mean, 0.1 * deviation)
    return found


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
