"""The codec as an encoder view, as a decoder view, and as a whole for training and tests.

Each view builds only the modules that it runs, with the key names of the Fish Audio S2-Pro release.
Shapes: B batch, n samples, K codebooks, T frames. Audio is mono in [-1, 1] at `config.sample_rate`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.config import CodecConfig
from engine.codec.quantizer import Quantizer, QuantizerDecodeState, QuantizerEncodeState
from engine.codec.stacks import Decoder, Encoder
from engine.codec.streaming import SequentialState, StreamingState


@dataclass
class EncoderState(StreamingState):
    """State of a streaming encoder; made by `CodecEncoder.init_state`."""

    encoder: SequentialState
    quantizer: QuantizerEncodeState


@dataclass
class DecoderState(StreamingState):
    """State of a streaming decoder; made by `CodecDecoder.init_state`."""

    quantizer: QuantizerDecodeState
    decoder: SequentialState


def whole_frames(audio: Tensor, frame_length: int) -> Tensor:
    """Pad audio `[B, 1, n]` with silence on the right to a multiple of `frame_length` samples."""
    return F.pad(audio, (0, -audio.shape[-1] % frame_length))


class CodecEncoder(nn.Module):
    """Audio → codes. Has no post_module, upsample or decoder."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.quantizer = Quantizer(config, decodes=False)

    @torch.inference_mode()
    def encode(self, audio: Tensor) -> Tensor:
        """Encode audio `[B, 1, n]`, n ≥ 1 → codes `[B, K, ceil(n / frame_length)]` int64.

        The last frame is padded with silence.
        """
        return self.quantizer.encode(self.encoder(whole_frames(audio, self.config.frame_length)))

    def init_state(self, batch: int = 1) -> EncoderState:
        """Make the state at the start of `batch` clips."""
        return EncoderState(self.encoder.init_state(batch), self.quantizer.init_encode_state(batch))

    @torch.inference_mode()
    def encode_step(self, audio: Tensor, state: EncoderState) -> Tensor:
        """Encode the next piece of a clip `[B, 1, T * frame_length]` → codes `[B, K, T]`; updates `state`.

        Raises ValueError when the piece is not a whole number of frames.
        """
        samples, frame = audio.shape[-1], self.config.frame_length
        if samples == 0 or samples % frame:
            raise ValueError(f"A piece must hold whole frames of {frame} samples, not {samples}.")
        return self.quantizer.encode(self.encoder(audio, state.encoder), state.quantizer)


class CodecDecoder(nn.Module):
    """Codes → audio. Has no encoder, downsample, pre_module or input projections."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = Quantizer(config, encodes=False)
        self.decoder = Decoder(config)

    @torch.inference_mode()
    def decode(self, codes: Tensor) -> Tensor:
        """Decode codes `[B, K, T]`, clamped into their codebooks → audio `[B, 1, T * frame_length]`.

        Raises InvalidCodes for another number of codebooks.
        """
        audio: Tensor = self.decoder(self.quantizer.decode(codes))
        return audio

    def init_state(self, batch: int = 1) -> DecoderState:
        """Make the state at the start of `batch` takes. Its buffers never grow."""
        return DecoderState(self.quantizer.init_decode_state(batch), self.decoder.init_state(batch))

    @torch.inference_mode()
    def decode_step(self, codes: Tensor, state: DecoderState) -> Tensor:
        """Decode the next frames `[B, K, T]`, T ≥ 1 → audio `[B, 1, T * frame_length]`; updates `state`.

        The joined pieces of a take equal `decode` of the whole take, within fp32 rounding.
        Raises InvalidCodes for another number of codebooks.
        """
        audio: Tensor = self.decoder(self.quantizer.decode(codes, state.quantizer), state.decoder)
        return audio


class Codec(nn.Module):
    """The whole codec in one module, for training it and for testing the views against it."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.quantizer = Quantizer(config)
        self.decoder = Decoder(config)

    @torch.inference_mode()
    def encode(self, audio: Tensor) -> Tensor:
        """As `CodecEncoder.encode`."""
        return self.quantizer.encode(self.encoder(whole_frames(audio, self.config.frame_length)))

    @torch.inference_mode()
    def decode(self, codes: Tensor) -> Tensor:
        """As `CodecDecoder.decode`."""
        audio: Tensor = self.decoder(self.quantizer.decode(codes))
        return audio
