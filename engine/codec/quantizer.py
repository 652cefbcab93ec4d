"""Conversion of latents to codes and back.

Source: factorised, L2-normalised vector quantisation of the Descript Audio Codec (Kumar et al. 2023), with
the semantic codebook, the resampling and the two transformers of the Fish Audio S2-Pro release.
Shapes: B batch, D latent width, K codebooks, T frames, t latents of the conv encoder.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.config import CodecConfig
from engine.codec.convolutions import CausalConv1d, CausalConvTranspose1d, ConvNeXtBlock
from engine.codec.streaming import SequentialState, StreamingSequential, StreamingState
from engine.codec.transformer import TransformerState, WindowedTransformer
from engine.errors import InvalidCodes


class VectorQuantizer(nn.Module):
    """One codebook. Without `encodes`, it only converts codes to latents."""

    def __init__(self, dim: int, size: int, codebook_dim: int, *, encodes: bool) -> None:
        super().__init__()
        if encodes:
            self.in_proj = nn.Conv1d(dim, codebook_dim, 1)
        self.out_proj = nn.Conv1d(codebook_dim, dim, 1)
        # Not nn.Embedding(size, …): on the meta device its normal_() makes PyTorch import its compiler, which costs
        # more than a second and 115 MiB at every start.
        entries = torch.empty(size, codebook_dim).uniform_(-1, 1)
        self.codebook: nn.Embedding = nn.Embedding.from_pretrained(entries, freeze=False)

    def nearest(self, z: Tensor) -> Tensor:
        """Quantize latents `[B, D, T]` → codes `[B, T]` int64: the entries closest in direction to z's projection."""
        wanted = F.normalize(self.in_proj(z), dim=1)
        entries = F.normalize(self.codebook.weight, dim=1)
        return torch.matmul(entries, wanted).argmax(1)

    def from_codes(self, codes: Tensor) -> Tensor:
        """Look up codes `[B, T]`, clamped into the codebook → latents `[B, D, T]`."""
        entries = self.codebook(codes.clamp(0, self.codebook.num_embeddings - 1))
        latents: Tensor = self.out_proj(entries.transpose(1, 2))
        return latents


class ResidualVectorQuantize(nn.Module):
    """A sequence of codebooks. Each quantizes the residual of the previous ones."""

    def __init__(self, dim: int, count: int, size: int, codebook_dim: int, *, encodes: bool) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(VectorQuantizer(dim, size, codebook_dim, encodes=encodes) for _ in range(count))

    def __iter__(self) -> Iterator[VectorQuantizer]:
        return cast(Iterator[VectorQuantizer], iter(self.quantizers))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Quantize latents `[B, D, T]` → codes `[B, count, T]` and the residual `[B, D, T]`."""
        codes = []
        for quantizer in self:
            codes.append(quantizer.nearest(z))
            z = z - quantizer.from_codes(codes[-1])
        return torch.stack(codes, 1), z

    def from_codes(self, codes: Tensor) -> Tensor:
        """Look up codes `[B, count, T]` → the sum of their latents `[B, D, T]`."""
        total = next(iter(self)).codebook.weight.new_zeros(())
        for quantizer, row in zip(self, codes.unbind(1), strict=True):
            total = total + quantizer.from_codes(row)
        return total


@dataclass
class QuantizerEncodeState(StreamingState):
    """Streaming state of encoding."""

    downsample: SequentialState
    pre_module: TransformerState


@dataclass
class QuantizerDecodeState(StreamingState):
    """Streaming state of decoding."""

    post_module: TransformerState
    upsample: SequentialState


class Quantizer(nn.Module):
    """Conversion of latents to codes and back. A view creates one direction only.

    `encodes` creates downsample, pre_module and the input projections, `decodes` creates post_module and upsample. The
    codebooks are always created.
    """

    def __init__(self, config: CodecConfig, *, encodes: bool = True, decodes: bool = True) -> None:
        super().__init__()
        sizes, dim = config.quantizer, config.latent_dim
        self.num_codebooks = config.num_codebooks
        if encodes:
            self.downsample = StreamingSequential(
                *(
                    StreamingSequential(CausalConv1d(dim, dim, factor, stride=factor), ConvNeXtBlock(dim))
                    for factor in sizes.downsample_factor
                )
            )
            self.pre_module = WindowedTransformer(sizes.transformer)
        self.semantic_quantizer = ResidualVectorQuantize(
            dim, 1, sizes.semantic_codebook_size, sizes.codebook_dim, encodes=encodes
        )
        self.quantizer = ResidualVectorQuantize(
            dim, sizes.n_codebooks, sizes.codebook_size, sizes.codebook_dim, encodes=encodes
        )
        if decodes:
            self.post_module = WindowedTransformer(sizes.transformer)
            self.upsample = StreamingSequential(
                *(
                    StreamingSequential(CausalConvTranspose1d(dim, dim, factor, stride=factor), ConvNeXtBlock(dim))
                    for factor in reversed(sizes.downsample_factor)
                )
            )

    def init_encode_state(self, batch: int) -> QuantizerEncodeState:
        return QuantizerEncodeState(self.downsample.init_state(batch), self.pre_module.init_state(batch))

    def encode(self, latents: Tensor, state: QuantizerEncodeState | None = None) -> Tensor:
        """Quantize latents of the conv encoder `[B, D, t]` → codes `[B, K, T]` int64, the semantic ones first."""
        z = self.downsample(latents, state.downsample if state else None)
        z = self.pre_module(z, state.pre_module if state else None)
        semantic_codes, z = self.semantic_quantizer(z)
        residual_codes, _ = self.quantizer(z)
        return torch.cat((semantic_codes, residual_codes), 1)

    def init_decode_state(self, batch: int) -> QuantizerDecodeState:
        return QuantizerDecodeState(self.post_module.init_state(batch), self.upsample.init_state(batch))

    def from_codes(self, codes: Tensor) -> Tensor:
        """Look up codes `[B, K, T]` → latents `[B, D, T]`.

        Raises InvalidCodes if the number of codebooks is wrong.
        """
        if codes.shape[1] != self.num_codebooks:
            raise InvalidCodes("codes.codebooks", count=codes.shape[1], wanted=self.num_codebooks)
        return self.semantic_quantizer.from_codes(codes[:, :1]) + self.quantizer.from_codes(codes[:, 1:])

    def codebook_weights(self) -> Iterator[Tensor]:
        """Iterate over each codebook's entries and the bias of its output projection, the semantic one first."""
        for stage in (self.semantic_quantizer, self.quantizer):
            for quantizer in stage:
                yield quantizer.codebook.weight
                assert quantizer.out_proj.bias is not None
                yield quantizer.out_proj.bias

    def decode(self, codes: Tensor, state: QuantizerDecodeState | None = None) -> Tensor:
        """Convert codes `[B, K, T]` to latents for the decoder `[B, D, t]`."""
        z = self.post_module(self.from_codes(codes), state.post_module if state else None)
        latents: Tensor = self.upsample(z, state.upsample if state else None)
        return latents
