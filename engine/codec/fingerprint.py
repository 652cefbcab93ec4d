"""Telling codecs apart by what their codes mean."""

import hashlib
import json

import torch

from engine.codec.codec import Codec, CodecDecoder, CodecEncoder


def codec_fingerprint(codec: Codec | CodecEncoder | CodecDecoder) -> str:
    """32 hex digits that stand for the meaning of this codec's codes.

    Hashed are the codebooks, the biases of their projections back into latents, and the sizes that a row of
    codes depends on. Both views and both file formats hold these bit by bit, so all of them give the same
    fingerprint, at once and on any machine. A decoder that learned on behind the same codebooks keeps it, as
    old codes still fit.
    Weights must be in fp32, as the loaders give them by default.
    """
    config = codec.config
    sizes = [config.sample_rate, config.frame_length, config.quantizer.codebook_dim, *config.codebook_sizes]
    digest = hashlib.sha256(json.dumps(["codec", 1, sizes]).encode())
    for weight in codec.quantizer.codebook_weights():
        digest.update(weight.detach().to("cpu", torch.float32).numpy().astype("<f4").tobytes())
    return digest.hexdigest()[:32]
