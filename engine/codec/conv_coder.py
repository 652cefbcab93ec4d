"""The convolutional encoder and decoder: audio to latents and latents to audio.

Source: the Descript Audio Codec (Kumar et al. 2023) in the causal form of the Fish Audio S2-Pro release.
"""

from typing import Any

import torch
from torch import Tensor

from engine.codec.config import CodecConfig
from engine.codec.convolutions import CausalConv1d, CausalConvTranspose1d, ResidualUnit, Snake
from engine.codec.streaming import (
    BlockSequential,
    SequentialState,
    StatelessLayer,
    StreamingModule,
    StreamingSequential,
    StreamingState,
)
from engine.codec.transformer import WindowedTransformer

_DILATIONS = (1, 3, 9)


class Tanh(StatelessLayer):
    """Tanh, to keep audio within [-1, 1]."""

    def forward(self, x: Tensor, state: StreamingState | None = None) -> Tensor:
        return torch.tanh(x)


class EncoderBlock(BlockSequential):
    """Three residual units, a strided conv that doubles the width, and a transformer if the config has one."""

    def __init__(self, config: CodecConfig, block: int) -> None:
        width, rate = config.encoder_dim * 2**block, config.encoder_rates[block]
        layers: list[StreamingModule[Any]] = [ResidualUnit(width, dilation) for dilation in _DILATIONS]
        layers += [Snake(width), CausalConv1d(width, 2 * width, 2 * rate, stride=rate)]
        if (transformer := config.encoder_transformer(block)) is not None:
            layers.append(WindowedTransformer(transformer))
        super().__init__(*layers)


class DecoderBlock(BlockSequential):
    """A transposed conv that halves the width, then three residual units."""

    def __init__(self, config: CodecConfig, block: int) -> None:
        width, rate = config.decoder_dim // 2**block, config.decoder_rates[block]
        super().__init__(
            Snake(width),
            CausalConvTranspose1d(width, width // 2, 2 * rate, stride=rate),
            *(ResidualUnit(width // 2, dilation) for dilation in _DILATIONS),
        )


class Encoder(BlockSequential):
    """Audio `[B, 1, n]` → latents `[B, latent_dim, n / hop_length]`; n must be a multiple of the hop length."""

    def __init__(self, config: CodecConfig) -> None:
        blocks = len(config.encoder_rates)
        width = config.encoder_dim * 2**blocks
        super().__init__(
            CausalConv1d(1, config.encoder_dim, 7),
            *(EncoderBlock(config, block) for block in range(blocks)),
            Snake(width),
            CausalConv1d(width, config.latent_dim, 3),
        )


class Decoder(StreamingModule[SequentialState]):
    """Latents `[B, latent_dim, t]` → audio `[B, 1, t * hop_length]` in [-1, 1]."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        blocks = len(config.decoder_rates)
        width = config.decoder_dim // 2**blocks
        self.model = StreamingSequential(
            CausalConv1d(config.latent_dim, config.decoder_dim, 7),
            *(DecoderBlock(config, block) for block in range(blocks)),
            Snake(width),
            CausalConv1d(width, 1, 7),
            Tanh(),
        )

    def init_state(self, batch: int) -> SequentialState:
        return self.model.init_state(batch)

    def forward(self, x: Tensor, state: SequentialState | None = None) -> Tensor:
        out: Tensor = self.model(x, state)
        return out
