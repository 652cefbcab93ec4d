"""The miniature codec: random weights in the layout of the release, and golden outputs of the reference."""

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.codec.codec import Codec, CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.families.s2.codec import load_codec, load_codec_decoder, load_codec_encoder
from tests.paths import MINIATURE

CHECKPOINT = MINIATURE / "codec.pth"


@pytest.fixture(scope="session")
def config() -> CodecConfig:
    return CodecConfig.from_json(MINIATURE / "codec_config.json")


@pytest.fixture(scope="session")
def golden() -> dict[str, Tensor]:
    return load_file(MINIATURE / "codec_golden.safetensors")


@pytest.fixture(scope="session")
def whole(config: CodecConfig) -> Codec:
    return load_codec(CHECKPOINT, config)


@pytest.fixture(scope="session")
def encoder(config: CodecConfig) -> CodecEncoder:
    return load_codec_encoder(CHECKPOINT, config)


@pytest.fixture(scope="session")
def decoder(config: CodecConfig) -> CodecDecoder:
    return load_codec_decoder(CHECKPOINT, config)


@pytest.fixture(scope="session")
def stored() -> dict[str, Tensor]:
    """The tensors of `codec.pth`."""
    state: dict[str, Tensor] = torch.load(CHECKPOINT, weights_only=True)
    return state


@pytest.fixture
def release(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `codec.pth`, copied for each test so that it can modify them."""
    return {name: tensor.clone() for name, tensor in stored.items()}
