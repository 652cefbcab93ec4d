"""The miniature release, loaded once, with the golden tensors of the public reference (see its README)."""

import gc
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.codec.codec import CodecDecoder
from engine.families.s2 import release
from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.families.s2.dual_ar import DualAR, load_dual_ar
from engine.models.native.run import use_native_sampling, use_native_steps
from engine.request import turns
from engine.serving import loading
from engine.text import frame_budget
from tests.paths import MINIATURE


def golden(name: str) -> dict[str, Tensor]:
    return load_file(MINIATURE / f"{name}_golden.safetensors")


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MINIATURE / f"{name}_cases.json").read_text())
    return found


@cache
def _dual_ar() -> DualAR:
    return load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu")


@cache
def _served() -> DualAR:
    """The weights that engines share. Engines rearrange them for their matrix products."""
    return load_dual_ar(MINIATURE, dtype=torch.float32, device="cpu")


@cache
def _decoder() -> CodecDecoder:
    return load_codec_decoder(*codec_files(MINIATURE))


@pytest.fixture(scope="session")
def miniature() -> DualAR:
    return _dual_ar()


@pytest.fixture
def shared_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `Engine.load` always use the miniature's weights in fp32, read once for all tests.

    Engines do not change the weights after rearranging them, unless they compile them. Native code is compared with
    the plain one at the first load only, which otherwise takes most of the time of a load.
    """
    monkeypatch.setattr(release, "load_dual_ar", lambda *_, **__: _served())
    monkeypatch.setattr(
        loading, "use_native_steps", lambda stack: None if stack.step_backend else use_native_steps(stack)
    )
    monkeypatch.setattr(
        loading,
        "use_native_sampling",
        lambda slow, sizes: None if slow.sampling_backend else use_native_sampling(slow, sizes),
    )
    monkeypatch.setattr(release, "load_codec_decoder", lambda *_: _decoder())


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit turns to 24 frames, several chunks, since random weights rarely sample the end token."""
    monkeypatch.setattr(turns, "frame_budget", lambda text, rate: min(24, frame_budget(text, rate)))


@pytest.fixture
def frequent_gc() -> Iterator[None]:
    """Collect garbage at nearly every new object, so that finalizers run at any line."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)
