"""Fingerprints of codecs, equal if their codes mean the same."""

import hashlib
import json
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

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
    return codebooks_digest("codec", sizes, codec.quantizer.codebook_weights())


def codebooks_digest(kind: str, sizes: Sequence[int], weights: Iterable[Tensor]) -> str:
    """Return 32 hex digits of a kind of codec, of sizes, and of the fp32 weights that give codes their meaning."""
    digest = hashlib.sha256(json.dumps([kind, 1, sizes]).encode())
    for weight in weights:
        digest.update(weight.detach().to("cpu", torch.float32).numpy().astype("<f4").tobytes())
    return digest.hexdigest()[:32]
