"""Fingerprints of codecs, equal if their codes mean the same."""

import hashlib
import json

import torch

from engine.codec.codec import Codec, CodecDecoder, CodecEncoder


def codec_fingerprint(codec: Codec | CodecEncoder | CodecDecoder) -> str:
    """Return 32 hex digits that identify the meaning of a codec's codes.

    The hash covers the codebooks, the biases of their output projections, and the sizes that codes depend on. These
    are bitwise equal in both views and both file formats, so the fingerprint is the same on any machine. Further
    training of the decoder with the same codebooks does not change it, because old codes remain valid.
    Weights must be fp32, the loaders' default.
    """
    config = codec.config
    sizes = [config.sample_rate, config.frame_length, config.quantizer.codebook_dim, *config.codebook_sizes]
    digest = hashlib.sha256(json.dumps(["codec", 1, sizes]).encode())
    for weight in codec.quantizer.codebook_weights():
        digest.update(weight.detach().to("cpu", torch.float32).numpy().astype("<f4").tobytes())
    return digest.hexdigest()[:32]
