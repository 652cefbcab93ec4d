"""The interface between the engine and a codec: sizes, an encoder view for cloning, and a decoder view for speech.

Shapes: B batch, n samples, K codebooks, T frames. Audio is mono in [-1, 1] at `sample_rate`.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.streaming import StreamingState


class CodecSizes(Protocol):
    """Sizes of a codec. sample_rate: in Hz. frame_length: samples per frame. codebook_sizes: entries, semantic first.

    encoder_activation_size, decoder_activation_size: values per frame of the largest activation.
    """

    @property
    def sample_rate(self) -> int: ...
    @property
    def frame_length(self) -> int: ...
    @property
    def frame_rate(self) -> float: ...
    @property
    def num_codebooks(self) -> int: ...
    @property
    def codebook_sizes(self) -> tuple[int, ...]: ...
    @property
    def encoder_activation_size(self) -> int: ...
    @property
    def decoder_activation_size(self) -> int: ...


def whole_frames(audio: Tensor, frame_length: int) -> Tensor:
    """Pad audio `[B, 1, n]` with silence on the right to a multiple of `frame_length` samples."""
    return F.pad(audio, (0, -audio.shape[-1] % frame_length))


class EncoderView(nn.Module, ABC):
    """Audio → codes, whole or as a stream."""

    config: CodecSizes

    @abstractmethod
    def init_state(self, batch: int = 1) -> Any:
        """Return the initial state of `batch` clips."""

    @abstractmethod
    def run(self, audio: Tensor, state: Any = None) -> Tensor:
        """Encode whole frames `[B, 1, T * frame_length]` → codes `[B, K, T]` int64. Updates `state`."""

    @torch.inference_mode()
    def encode(self, audio: Tensor) -> Tensor:
        """Encode audio `[B, 1, n]`, n ≥ 1 → codes `[B, K, ceil(n / frame_length)]` int64.

        The last frame is padded with silence.
        """
        return self.run(whole_frames(audio, self.config.frame_length))

    @torch.inference_mode()
    def encode_step(self, audio: Tensor, state: Any) -> Tensor:
        """Encode the next chunk of a clip `[B, 1, T * frame_length]` → codes `[B, K, T]`. Updates `state`.

        Raises ValueError if the chunk is not a whole number of frames.
        """
        samples, frame = audio.shape[-1], self.config.frame_length
        if samples == 0 or samples % frame:
            raise ValueError(f"A piece must hold whole frames of {frame} samples, not {samples}.")
        return self.run(audio, state)


class DecoderView(nn.Module, ABC):
    """Codes → audio, whole or as a stream."""

    config: CodecSizes

    @abstractmethod
    def init_state(self, batch: int = 1) -> StreamingState:
        """Return the initial state of `batch` takes. Its buffers never grow."""

    @abstractmethod
    def run(self, codes: Tensor, state: Any = None) -> Tensor:
        """Decode frames `[B, K, T]`, T ≥ 1 → audio `[B, 1, T * frame_length]`. Updates `state`."""

    @torch.inference_mode()
    def decode(self, codes: Tensor) -> Tensor:
        """Decode codes `[B, K, T]`, clamped into their codebooks → audio `[B, 1, T * frame_length]`.

        Raises InvalidCodes if the number of codebooks is wrong.
        """
        return self.run(codes)

    @torch.inference_mode()
    def decode_step(self, codes: Tensor, state: Any) -> Tensor:
        """Decode the next frames `[B, K, T]`, T ≥ 1 → audio `[B, 1, T * frame_length]`. Updates `state`.

        The concatenated chunks of a take equal `decode` of the whole take, within fp32 rounding.
        Raises InvalidCodes if the number of codebooks is wrong.
        """
        return self.run(codes, state)
