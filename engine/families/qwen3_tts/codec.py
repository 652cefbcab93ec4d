"""The 12 Hz speech tokenizer of Qwen3-TTS: an encoder view for cloning and a decoder view for speech.

Source: the package qwen-tts 0.1.1. The encoder is that of Kyutai's Mimi as implemented in transformers. The decoder is
a transformer followed by a causal convolutional network. Each side has its own codebooks.
Shapes: B batch, D latent width, K codebooks, T frames, t latents.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.convolutions import (
    CausalConv1d,
    CausalConvTranspose1d,
    ConvNeXtBlock,
    PeriodicActivation,
    ResidualUnit,
)
from engine.codec.fingerprint import codebooks_digest
from engine.codec.streaming import (
    BlockSequential,
    SequentialState,
    StatelessLayer,
    StreamingModule,
    StreamingSequential,
    StreamingState,
    extend,
)
from engine.codec.transformer import TransformerState, WindowedTransformer, WindowedTransformerBlock
from engine.codec.views import DecoderView, EncoderView
from engine.errors import InvalidCodes
from engine.families.qwen3_tts.codec_config import CodecTransformerConfig, SpeechTokenizerConfig

_DILATIONS = (1, 3, 9)


class Elu(StatelessLayer):
    """ELU."""

    def forward(self, x: Tensor, state: StreamingState | None = None) -> Tensor:
        return F.elu(x)


class Clamp(StatelessLayer):
    """Clamps audio to [-1, 1]."""

    def forward(self, x: Tensor, state: StreamingState | None = None) -> Tensor:
        return x.clamp(-1, 1)


class SnakeBeta(PeriodicActivation):
    """x + β sin²(αx) per channel; the release stores log α and -log β."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.ones(channels, 1)), nn.Parameter(torch.ones(channels, 1))

    def factors(self) -> tuple[Tensor, Tensor]:
        return self.alpha, self.beta


class EncoderResidual(BlockSequential):
    """ELU, kernel-3 conv to half the width, ELU, kernel-1 conv; plus the input."""

    def __init__(self, channels: int) -> None:
        half = channels // 2
        super().__init__(Elu(), CausalConv1d(channels, half, 3), Elu(), CausalConv1d(half, channels, 1))

    def forward(self, x: Tensor, state: SequentialState | None = None) -> Tensor:
        return x + super().forward(x, state)


@dataclass
class DownsampleState(StreamingState):
    """Past inputs that the next output needs. begun: int64 `[B]`, 1 once the signal has started."""

    past: Tensor
    begun: Tensor


class Downsample(StreamingModule[DownsampleState]):
    """A causal convolution of stride 2, left-padded with copies of the first input. t must be even."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 4, stride=2, bias=False)

    def init_state(self, batch: int) -> DownsampleState:
        weight = self.conv.weight
        return DownsampleState(
            weight.new_zeros(batch, self.conv.in_channels, 2), weight.new_zeros(batch, dtype=torch.int64)
        )

    def forward(self, x: Tensor, state: DownsampleState | None = None) -> Tensor:
        if state is None:
            x = F.pad(x, (2, 0), mode="replicate")
        else:
            state.past.copy_(torch.where(state.begun[:, None, None] > 0, state.past, x[..., :1]))
            state.begun.fill_(1)
            x = extend(state.past, x)
        out: Tensor = self.conv(x)
        return out


class GeluFeedForward(nn.Module):
    """Linear layer, GELU, linear layer."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return out


class EncoderTransformer(WindowedTransformer):
    """Transformer with LayerNorm and GELU."""

    def __init__(self, config: CodecTransformerConfig) -> None:
        block = partial(WindowedTransformerBlock, norm=nn.LayerNorm, feed_forward=GeluFeedForward)
        super().__init__(config, block=block, rounded=False)


class DecoderTransformer(WindowedTransformer):
    """Transformer with projections between its width and that of the latents."""

    def __init__(self, config: CodecTransformerConfig, latent_dim: int) -> None:
        super().__init__(config, rounded=False)
        self.input_proj, self.output_proj = nn.Linear(latent_dim, config.dim), nn.Linear(config.dim, latent_dim)

    def forward(self, x: Tensor, state: TransformerState | None = None) -> Tensor:
        x = super().forward(self.input_proj(x.transpose(1, 2)).transpose(1, 2), state)
        out: Tensor = self.output_proj(x.transpose(1, 2)).transpose(1, 2)
        return out


def _codebooks(config: SpeechTokenizerConfig) -> nn.ParameterList:
    shape = config.codebook_size, config.codebook_dim
    return nn.ParameterList(nn.Parameter(torch.empty(shape)) for _ in range(config.num_codebooks))


class EncoderQuantizer(nn.Module):
    """Latents → codes. The semantic codebook and the chain of residual ones each have their own projection."""

    def __init__(self, config: SpeechTokenizerConfig) -> None:
        super().__init__()
        self.semantic_proj = nn.Conv1d(config.encoder_dim, config.codebook_dim, 1, bias=False)
        self.residual_proj = nn.Conv1d(config.encoder_dim, config.codebook_dim, 1, bias=False)
        self.entries = _codebooks(config)

    def encode(self, latents: Tensor) -> Tensor:
        """Quantize latents `[B, D, T]` → codes `[B, K, T]` int64."""
        first, *rest = self.entries
        codes = [_nearest(self.semantic_proj(latents).transpose(1, 2), first)]
        residual = self.residual_proj(latents).transpose(1, 2)
        for entries in rest:
            codes.append(_nearest(residual, entries))
            residual = residual - F.embedding(codes[-1], entries)
        return torch.stack(codes, dim=1)


def _nearest(wanted: Tensor, entries: Tensor) -> Tensor:
    """Return the indices of the entries nearest to `wanted` `[B, T, d]`, `[B, T]` int64."""
    distances = torch.cdist(wanted.flatten(0, 1).float()[None], entries.float()[None])[0]
    return distances.argmin(-1).view(wanted.shape[:2])


class DecoderQuantizer(nn.Module):
    """Codes → latents."""

    def __init__(self, config: SpeechTokenizerConfig) -> None:
        super().__init__()
        self.size = config.codebook_size
        self.semantic_proj = nn.Conv1d(config.codebook_dim, config.decoder_quantizer_dim, 1, bias=False)
        self.residual_proj = nn.Conv1d(config.codebook_dim, config.decoder_quantizer_dim, 1, bias=False)
        self.entries = _codebooks(config)

    def decode(self, codes: Tensor) -> Tensor:
        """Look up codes `[B, K, T]`, clamped into their codebooks → latents `[B, D, T]`.

        Raises InvalidCodes if the number of codebooks is wrong.
        """
        if codes.shape[1] != len(self.entries):
            raise InvalidCodes("codes.codebooks", count=codes.shape[1], wanted=len(self.entries))
        rows = codes.clamp(0, self.size - 1).unbind(1)
        first, *rest = [F.embedding(row, entries) for row, entries in zip(rows, self.entries, strict=True)]
        total = rest[0]
        for each in rest[1:]:
            total = total + each
        latents: Tensor = self.semantic_proj(first.transpose(1, 2)) + self.residual_proj(total.transpose(1, 2))
        return latents


@dataclass
class SpeechEncoderState(StreamingState):
    """State of a streaming encoder."""

    encoder: SequentialState
    transformer: TransformerState
    downsample: DownsampleState


class SpeechEncoder(EncoderView):
    """Audio → codes."""

    def __init__(self, config: SpeechTokenizerConfig) -> None:
        super().__init__()
        self.config: SpeechTokenizerConfig = config
        width = config.filters
        layers: list[StreamingModule[Any]] = [CausalConv1d(1, width, 7)]
        for rate in config.encoder_rates:
            layers += [EncoderResidual(width), Elu(), CausalConv1d(width, 2 * width, 2 * rate, stride=rate)]
            width *= 2
        self.encoder = StreamingSequential(*layers, Elu(), CausalConv1d(width, config.encoder_dim, 3))
        self.transformer = EncoderTransformer(config.encoder_transformer)
        self.downsample = Downsample(config.encoder_dim)
        self.quantizer = EncoderQuantizer(config)

    def init_state(self, batch: int = 1) -> SpeechEncoderState:
        return SpeechEncoderState(
            self.encoder.init_state(batch), self.transformer.init_state(batch), self.downsample.init_state(batch)
        )

    def run(self, audio: Tensor, state: SpeechEncoderState | None = None) -> Tensor:
        latents = self.encoder(audio, state.encoder if state else None)
        latents = self.transformer(latents, state.transformer if state else None)
        return self.quantizer.encode(self.downsample(latents, state.downsample if state else None))


@dataclass
class SpeechDecoderState(StreamingState):
    """State of a streaming decoder."""

    pre_conv: StreamingState
    transformer: TransformerState
    upsample: SequentialState
    decoder: SequentialState


class SpeechDecoder(DecoderView):
    """Codes → audio."""

    def __init__(self, config: SpeechTokenizerConfig) -> None:
        super().__init__()
        self.config: SpeechTokenizerConfig = config
        latent = config.latent_dim
        self.quantizer = DecoderQuantizer(config)
        self.pre_conv = CausalConv1d(config.decoder_quantizer_dim, latent, 3)
        self.transformer = DecoderTransformer(config.decoder_transformer, latent)
        self.upsample = StreamingSequential(
            *(
                StreamingSequential(CausalConvTranspose1d(latent, latent, factor, stride=factor), ConvNeXtBlock(latent))
                for factor in config.upsample_factors
            )
        )
        width = config.decoder_dim
        layers: list[StreamingModule[Any]] = [CausalConv1d(latent, width, 7)]
        for rate in config.decoder_rates:
            layers.append(
                BlockSequential(
                    SnakeBeta(width),
                    CausalConvTranspose1d(width, width // 2, 2 * rate, stride=rate),
                    *(ResidualUnit(width // 2, dilation, SnakeBeta) for dilation in _DILATIONS),
                )
            )
            width //= 2
        self.decoder = StreamingSequential(*layers, SnakeBeta(width), CausalConv1d(width, 1, 7), Clamp())

    def init_state(self, batch: int = 1) -> SpeechDecoderState:
        return SpeechDecoderState(
            self.pre_conv.init_state(batch),
            self.transformer.init_state(batch),
            self.upsample.init_state(batch),
            self.decoder.init_state(batch),
        )

    def run(self, codes: Tensor, state: SpeechDecoderState | None = None) -> Tensor:
        latents = self.pre_conv(self.quantizer.decode(codes), state.pre_conv if state else None)
        latents = self.transformer(latents, state.transformer if state else None)
        latents = self.upsample(latents, state.upsample if state else None)
        audio: Tensor = self.decoder(latents, state.decoder if state else None)
        return audio


class SpeechTokenizer(nn.Module):
    """Both views in one module, for checking the tensor names of a file and for testing the views against it."""

    def __init__(self, config: SpeechTokenizerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = SpeechEncoder(config), SpeechDecoder(config)


def fingerprint(decoder: SpeechDecoder) -> str:
    """Return 32 hex digits that identify the meaning of the codes: a hash of the decoder's codebooks and projections.

    Weights must be fp32, as loaded.
    """
    config, quantizer = decoder.config, decoder.quantizer
    sizes = [config.sample_rate, config.frame_length, config.codebook_dim, *config.codebook_sizes]
    weights = (*quantizer.entries, quantizer.semantic_proj.weight, quantizer.residual_proj.weight)
    return codebooks_digest("qwen3_tts_tokenizer_12hz", sizes, weights)
