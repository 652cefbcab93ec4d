"""The miniature codec and the tensors of its file."""

from tests.engine.codec.conftest import config, release, stored, whole

__all__ = ["config", "release", "stored", "whole"]
