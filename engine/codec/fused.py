"""Fused kernels for the convolutions of a decoder that streams: three a residual unit instead of fifteen. For GPUs.

`use_fused_convolutions` gives a decoder's layers a `FusedConvolutions` after comparing both ways on the decoder's own
weights. If they differ, or if Triton is missing or fails, the plain layers stay in use.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engine.codec.convolutions import (
    CausalConv1d,
    CausalConvTranspose1d,
    ConvolutionBackend,
    ConvState,
    ConvTransposeState,
    PeriodicActivation,
    ResidualUnit,
)
from engine.codec.streaming import SequentialState
from engine.codec.views import DecoderView
from engine.errors import first_line

if TYPE_CHECKING:
    from engine.codec.kernels import SnakeFactors

TOLERANCE = 1e-4  # relative difference of audio and states; 1e-6 is usual
_CHECKED = (2, 1), (1, 16), (4, 16)  # rows and frames: together, they use all kernels that listeners will use
_LEAST_CAPABILITY = 8, 0  # of GPUs whose matrix units multiply TF32
# Orders of a weight's dimensions, which are outputs, inputs and taps, or inputs, outputs and taps if it is transposed.
_TAPS_FIRST, _TRANSPOSED_TAPS_FIRST = (2, 0, 1), (2, 1, 0)


Run = Callable[[Callable[[], list[Tensor]]], list[Tensor]]


class FusedConvolutions:
    """Layers on tensors that look like `[B, C, T]` and are stored as `[B, T, C]`."""

    def __init__(self) -> None:
        """Raises ImportError without Triton."""
        from engine.codec import kernels

        self._kernels = kernels
        self._snakes: dict[PeriodicActivation, SnakeFactors] = {}

    def conv(self, layer: CausalConv1d, x: Tensor, state: ConvState) -> Tensor:
        return self._convolved(layer, x, state).transpose(1, 2)

    def conv_transpose(self, layer: CausalConvTranspose1d, x: Tensor, state: ConvTransposeState) -> Tensor:
        out, overlap = self._kernels.convolve_transposed(
            _stored(x), _transposed_taps(layer), _bias(layer), state.overlap
        )
        state.overlap = overlap.transpose(1, 2)
        return out.transpose(1, 2)

    def activation(self, layer: PeriodicActivation, x: Tensor) -> Tensor:
        nothing = x.new_empty(len(x), x.shape[1], 0)
        return self._kernels.extend(nothing, x, self._snake(layer))[0].transpose(1, 2)

    def residual_unit(self, layer: ResidualUnit, x: Tensor, state: SequentialState) -> Tensor:
        first, wide, second, narrow = layer.block
        _, past, _, _ = state.layers
        assert isinstance(first, PeriodicActivation)
        assert isinstance(second, PeriodicActivation)
        assert isinstance(wide, CausalConv1d)
        assert isinstance(narrow, CausalConv1d)
        assert isinstance(past, ConvState)
        between = self._convolved(wide, x, past, before=first, after=second)
        out = self._kernels.convolve(between, _taps(narrow), _bias(narrow), residual=_stored(x))
        return out.transpose(1, 2)

    def _convolved(
        self,
        layer: CausalConv1d,
        x: Tensor,
        state: ConvState,
        before: PeriodicActivation | None = None,
        after: PeriodicActivation | None = None,
    ) -> Tensor:
        """Run a convolution between two activations → `[B, T, E]`. The state keeps what the first one returns."""
        joined, past = self._kernels.extend(state.past, x, self._snake(before))
        state.past = past.transpose(1, 2)
        (dilation,) = layer.conv.dilation
        return self._kernels.convolve(joined, _taps(layer), _bias(layer), dilation=dilation, snake=self._snake(after))

    def _snake(self, layer: PeriodicActivation | None) -> "SnakeFactors | None":
        if layer is None:
            return None
        if layer not in self._snakes:
            self._snakes[layer] = self._kernels.SnakeFactors(*(factor.flatten() for factor in layer.factors()))
        return self._snakes[layer]


@torch.inference_mode()
def use_fused_convolutions(decoder: DecoderView, run: Run = lambda plain: plain()) -> str | None:
    """Let a decoder's layers run in fused kernels while it streams, if these agree with the plain ones.

    Its weights are stored in another order, with the same shapes. run: runs the plain layers, whose shapes are new to
    cuDNN. Returns: a phrase that says why the plain layers stay in use, or None.
    """
    if not _multiplies_tf32(next(decoder.parameters()).device):
        return "convolution kernels: they are for NVIDIA's GPUs from Ampere on"
    try:
        backend = FusedConvolutions()
        plain = [run(partial(_decoded, decoder, *size)) for size in _CHECKED]
        set_backend(decoder, backend)
        fused = [_decoded(decoder, *size) for size in _CHECKED]
        pairs = zip(chain(*plain), chain(*fused), strict=True)
        differences = torch.stack([_relative_difference(*pair) for pair in pairs])
        if not (differences <= TOLERANCE).all():  # NaN too
            raise ArithmeticError(f"they differ from the plain ones by {differences.max():.2g}")
    except Exception as error:  # compilers and drivers raise many types
        set_backend(decoder, None)
        return f"convolution kernels: {first_line(error)}"
    return None


def _multiplies_tf32(device: torch.device) -> bool:
    """Return whether a GPU has the matrix units of the kernels; true for a CPU, on which they are interpreted."""
    if device.type != "cuda":
        return True
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= _LEAST_CAPABILITY


def _decoded(decoder: DecoderView, rows: int, frames: int) -> list[Tensor]:
    """Decode two chunks of random codes, the same at every call. Returns their audio and the state after them."""
    state = decoder.init_state(rows)
    device = next(state.tensors()).device
    chance = torch.Generator(device).manual_seed(0)
    made = [
        torch.randint(n, (rows, 2 * frames), generator=chance, device=device) for n in decoder.config.codebook_sizes
    ]
    return [*(decoder.decode_step(part, state) for part in torch.stack(made, 1).chunk(2, dim=2)), *state.tensors()]


def _relative_difference(expected: Tensor, found: Tensor) -> Tensor:
    """Return the norm of the difference by that of the expected values."""
    wide = expected.float()
    difference: Tensor = (found.float() - wide).norm() / wide.norm().clamp(min=1e-12)
    return difference


def set_backend(decoder: nn.Module, backend: ConvolutionBackend | None) -> None:
    """Set the backend of all layers that it can run, and store their weights as it reads them, or as they were."""
    for layer in decoder.modules():
        if isinstance(layer, CausalConv1d) and layer.conv.groups == 1 and layer.conv.stride == (1,):
            _store(layer.conv, _TAPS_FIRST if backend else None)
        elif isinstance(layer, CausalConvTranspose1d) and layer.tail == layer.stride:
            _store(layer.conv, _TRANSPOSED_TAPS_FIRST if backend else None)
        elif not isinstance(layer, PeriodicActivation | ResidualUnit):
            continue
        layer.backend = backend


def _store(conv: nn.Conv1d | nn.ConvTranspose1d, order: tuple[int, int, int] | None) -> None:
    """Store a weight with its dimensions in another order, or as usual; its shape stays the same."""
    weight = conv.weight.contiguous()
    if order is not None:
        back = [order.index(dimension) for dimension in range(weight.dim())]
        weight = weight.permute(order).contiguous().permute(back)
    conv.weight = nn.Parameter(weight, requires_grad=False)


def _taps(layer: CausalConv1d) -> Tensor:
    """Return the weight as `[taps, outputs, inputs]`."""
    return layer.conv.weight.permute(_TAPS_FIRST)


def _transposed_taps(layer: CausalConvTranspose1d) -> Tensor:
    """Return the weight as `[2, stride × outputs, inputs]`."""
    return layer.conv.weight.permute(_TRANSPOSED_TAPS_FIRST).view(2, -1, layer.conv.in_channels)


def _bias(layer: CausalConv1d | CausalConvTranspose1d) -> Tensor:
    assert layer.conv.bias is not None
    return layer.conv.bias


def _stored(x: Tensor) -> Tensor:
    """Return x `[B, C, T]` as `[B, T, C]`, contiguous."""
    return x.transpose(1, 2).contiguous()
