"""The miniature codec and the tensors of its file."""

import pytest
import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.families.s2.codec import load_codec
from tests.engine.codec.conftest import CHECKPOINT, MINIATURE


@pytest.fixture(scope="session")
def config() -> CodecConfig:
    return CodecConfig.from_json(MINIATURE / "codec_config.json")


@pytest.fixture(scope="session")
def whole(config: CodecConfig) -> Codec:
    return load_codec(CHECKPOINT, config)


@pytest.fixture(scope="session")
def stored() -> dict[str, Tensor]:
    """The tensors of `codec.pth`."""
    state: dict[str, Tensor] = torch.load(CHECKPOINT, weights_only=True)
    return state


@pytest.fixture
def release(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `codec.pth`, copied for each test so that it can modify them."""
    return {name: tensor.clone() for name, tensor in stored.items()}
