"""The codec as an encoder view, as a decoder view, and as a whole for training and tests.

Each view creates only the modules that it runs, with the key names of the Fish Audio S2-Pro release.
Shapes: B batch, n samples, K codebooks, T frames. Audio is mono in [-1, 1] at `config.sample_rate`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.codec.config import CodecConfig
from engine.codec.conv_coder import Decoder, Encoder
from engine.codec.quantizer import Quantizer, QuantizerDecodeState, QuantizerEncodeState
from engine.codec.streaming import SequentialState, StreamingState
from engine.codec.views import DecoderView, EncoderView, whole_frames


@dataclass
class EncoderState(StreamingState):
    """State of a streaming encoder, created by `CodecEncoder.init_state`."""

    encoder: SequentialState
    quantizer: QuantizerEncodeState


@dataclass
class DecoderState(StreamingState):
    """State of a streaming decoder, created by `CodecDecoder.init_state`."""

    quantizer: QuantizerDecodeState
    decoder: SequentialState


class CodecEncoder(EncoderView):
    """Audio → codes. Has no post_module, upsample or decoder."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config: CodecConfig = config
        self.encoder = Encoder(config)
        self.quantizer = Quantizer(config, decodes=False)

    def init_state(self, batch: int = 1) -> EncoderState:
        return EncoderState(self.encoder.init_state(batch), self.quantizer.init_encode_state(batch))

    def run(self, audio: Tensor, state: EncoderState | None = None) -> Tensor:
        latents = self.encoder(audio, state.encoder if state else None)
        return self.quantizer.encode(latents, state.quantizer if state else None)


class CodecDecoder(DecoderView):
    """Codes → audio. Has no encoder, downsample, pre_module or input projections."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config: CodecConfig = config
        self.quantizer = Quantizer(config, encodes=False)
        self.decoder = Decoder(config)

    def init_state(self, batch: int = 1) -> DecoderState:
        return DecoderState(self.quantizer.init_decode_state(batch), self.decoder.init_state(batch))

    def run(self, codes: Tensor, state: DecoderState | None = None) -> Tensor:
        latents = self.quantizer.decode(codes, state.quantizer if state else None)
        audio: Tensor = self.decoder(latents, state.decoder if state else None)
        return audio


class Codec(nn.Module):
    """The whole codec in one module, for training and for testing the views against it."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.quantizer = Quantizer(config)
        self.decoder = Decoder(config)

    @torch.inference_mode()
    def encode(self, audio: Tensor) -> Tensor:
        """See `CodecEncoder.encode`."""
        return self.quantizer.encode(self.encoder(whole_frames(audio, self.config.frame_length)))

    @torch.inference_mode()
    def decode(self, codes: Tensor) -> Tensor:
        """See `CodecDecoder.decode`."""
        audio: Tensor = self.decoder(self.quantizer.decode(codes))
        return audio
