"""Convolutional layers of the causal codec, all on `[B, C, T]`.

Source: the Descript Audio Codec (Kumar et al. 2023) in the causal form of the Fish Audio S2-Pro release; the ConvNeXt
block is that of Liu et al. 2022 in one dimension.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.streaming import (
    BlockSequential,
    SequentialState,
    StatelessLayer,
    StreamingModule,
    StreamingState,
    extend,
)

_FEW = 64  # steps


class ConvolutionBackend(Protocol):
    """Runs layers of a stream in place of their `forward`, with the same results and states."""

    def conv(self, layer: "CausalConv1d", x: Tensor, state: "ConvState") -> Tensor: ...

    def conv_transpose(self, layer: "CausalConvTranspose1d", x: Tensor, state: "ConvTransposeState") -> Tensor: ...

    def activation(self, layer: "PeriodicActivation", x: Tensor) -> Tensor: ...

    def residual_unit(self, layer: "ResidualUnit", x: Tensor, state: SequentialState) -> Tensor: ...


@dataclass
class ConvState(StreamingState):
    """Past inputs that the next output of a convolution needs."""

    past: Tensor  # [B, C, (kernel - 1) * dilation + 1 - stride]


class CausalConv1d(StreamingModule[ConvState]):
    """A causal convolution: T steps in, T / stride out. T must be a multiple of the stride."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride=stride, dilation=dilation, groups=groups)
        self.reach = (kernel - 1) * dilation + 1 - stride
        self.backend: ConvolutionBackend | None = None  # set by `use_fused_convolutions`, as in the layers below

    def init_state(self, batch: int) -> ConvState:
        return ConvState(self.conv.weight.new_zeros(batch, self.conv.in_channels, self.reach))

    def forward(self, x: Tensor, state: ConvState | None = None) -> Tensor:
        if self.backend is not None and state is not None:
            return self.backend.conv(self, x, state)
        if self.reach:
            x = F.pad(x, (self.reach, 0)) if state is None else extend(state.past, x)
        out: Tensor = _conv_of_few(self.conv, x) if _is_few(x, self.reach) and self.conv.groups == 1 else self.conv(x)
        return out


@dataclass
class ConvTransposeState(StreamingState):
    """Contributions of past inputs to the next outputs of a transposed convolution, without the bias."""

    overlap: Tensor  # [B, C, kernel - stride]


class CausalConvTranspose1d(StreamingModule[ConvTransposeState]):
    """A causal transposed convolution: T steps in, T * stride out."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride=stride)
        self.stride, self.tail = stride, kernel - stride
        self.backend: ConvolutionBackend | None = None

    def init_state(self, batch: int) -> ConvTransposeState:
        return ConvTransposeState(self.conv.weight.new_zeros(batch, self.conv.out_channels, self.tail))

    def forward(self, x: Tensor, state: ConvTransposeState | None = None) -> Tensor:
        if self.backend is not None and state is not None:
            return self.backend.conv_transpose(self, x, state)
        length = x.shape[2] * self.stride
        whole = self.tail % self.stride == 0
        out: Tensor = _conv_transpose_of_few(self.conv, x) if _is_few(x) and whole else self.conv(x)
        if state is not None and self.tail:
            out[..., : self.tail] += state.overlap
            assert self.conv.bias is not None
            torch.sub(out[..., length:], self.conv.bias[:, None], out=state.overlap)
        return out[..., :length]


def _is_few(x: Tensor, reach: int = 0) -> bool:
    """Whether x, not counting `reach` past steps, is so short that on a CPU a matrix product is faster than PyTorch's
    convolution, which reorders the weights: two to nine times. Only in inference mode, because initialisation for
    training uses forward hooks on the convolutions.
    """
    return x.shape[2] - reach <= _FEW and x.device.type == "cpu" and torch.is_inference_mode_enabled()


def _conv_of_few(conv: nn.Conv1d, x: Tensor) -> Tensor:
    """Apply a convolution as a matrix product of its inputs and weights."""
    _, inputs, kernel = conv.weight.shape
    (stride,), (dilation,) = conv.stride, conv.dilation
    steps = (x.shape[2] - (kernel - 1) * dilation - 1) // stride + 1
    batch, channel, step = x.stride()
    windows = x.as_strided((len(x), steps, inputs, kernel), (batch, stride * step, channel, dilation * step))
    out: Tensor = F.linear(windows.flatten(2), conv.weight.flatten(1), conv.bias)
    return out.transpose(1, 2)


def _conv_transpose_of_few(conv: nn.ConvTranspose1d, x: Tensor) -> Tensor:
    """Apply a transposed convolution whose kernel is a multiple of its stride, as a matrix product and overlap-add."""
    _, outputs, kernel = conv.weight.shape
    (stride,), steps = conv.stride, x.shape[2]
    parts = torch.matmul(x.transpose(1, 2), conv.weight.flatten(1))
    parts = parts.view(len(x), steps, outputs, kernel // stride, stride).permute(3, 0, 2, 1, 4)
    out = x.new_zeros(len(x), outputs, steps + len(parts) - 1, stride)
    for i, part in enumerate(parts):
        out[:, :, i : i + steps] += part
    assert conv.bias is not None
    return out.flatten(2) + conv.bias[:, None]


class PeriodicActivation(StatelessLayer):
    """x + amplitude × sin²(frequency × x), with one of each per channel."""

    def __init__(self) -> None:
        super().__init__()
        self.backend: ConvolutionBackend | None = None

    @abstractmethod
    def factors(self) -> tuple[Tensor, Tensor]:
        """Return the frequency and the amplitude, `[…, C, 1]`."""

    def forward(self, x: Tensor, state: StreamingState | None = None) -> Tensor:
        if self.backend is not None and state is not None:
            return self.backend.activation(self, x)
        frequency, amplitude = self.factors()
        wave = torch.sin(frequency * x)
        return torch.addcmul(x, wave * amplitude, wave)


class Snake(PeriodicActivation):
    """x + sin²(αx) / α with one α per channel (Ziyin et al. 2020)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def factors(self) -> tuple[Tensor, Tensor]:
        return self.alpha, (self.alpha + 1e-9).reciprocal()


class ResidualUnit(BlockSequential):
    """Snake, dilated kernel-7 conv, snake, kernel-1 conv; plus the input."""

    def __init__(self, channels: int, dilation: int, snake: Callable[[int], PeriodicActivation] = Snake) -> None:
        super().__init__(
            snake(channels),
            CausalConv1d(channels, channels, 7, dilation=dilation),
            snake(channels),
            CausalConv1d(channels, channels, 1),
        )
        self.backend: ConvolutionBackend | None = None

    def forward(self, x: Tensor, state: SequentialState | None = None) -> Tensor:
        if self.backend is not None and state is not None:
            return self.backend.residual_unit(self, x, state)
        return x + super().forward(x, state)


class ConvNeXtBlock(StreamingModule[ConvState]):
    """Depthwise causal kernel-7 conv, then a per-step feed-forward four times as wide; plus the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv1d(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 1e-6))

    def init_state(self, batch: int) -> ConvState:
        return self.dwconv.init_state(batch)

    def forward(self, x: Tensor, state: ConvState | None = None) -> Tensor:
        steps: Tensor = self.norm(self.dwconv(x, state).transpose(1, 2))
        steps = self.pwconv2(F.gelu(self.pwconv1(steps)))
        return x + (self.gamma * steps).transpose(1, 2)
