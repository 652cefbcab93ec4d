"""The miniature Qwen3-TTS release, and golden outputs of the public package (`scripts/make_qwen3_tts.py`)."""

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.families.qwen3_tts.config import read_generation
from engine.families.qwen3_tts.release import Qwen3TTSRelease, TalkerArchitecture, TalkerModel
from engine.families.qwen3_tts.weights import load_stacks
from tests.paths import QWEN

CPU = torch.device("cpu")


@cache
def golden() -> dict[str, Tensor]:
    return load_file(QWEN / "golden.safetensors")


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((QWEN / "cases.json").read_text())
    return found


def as_kind(folder: Path, kind: str) -> Path:
    """Write a release of another kind to `folder`: the same weights without speaker encoder, another config."""
    shutil.copytree(QWEN, folder, ignore=shutil.ignore_patterns("golden*", "cases*"), dirs_exist_ok=True)
    if kind != "base":
        shutil.copy(QWEN / f"{kind}.json", folder / "config.json")
        weights = load_file(folder / "model.safetensors")
        own = {name: weight for name, weight in weights.items() if not name.startswith("speaker_encoder.")}
        save_file(own, folder / "model.safetensors")
    return folder


def as_narrow(architecture: TalkerArchitecture) -> TalkerArchitecture:
    """Return sizes like those of the 0.6B models, whose talker is as narrow as the code predictor."""
    config = architecture.config
    return replace(architecture, config=replace(config, fast=replace(config.fast, dim=config.slow.dim)))


@pytest.fixture(scope="session")
def release() -> Qwen3TTSRelease:
    return Qwen3TTSRelease(QWEN)


@pytest.fixture(scope="session")
def model(release: Qwen3TTSRelease) -> TalkerModel:
    return release.load_model(torch.float32, CPU, None)


@pytest.fixture(scope="session")
def model_with_text_on_host(release: Qwen3TTSRelease) -> TalkerModel:
    """The model as it is loaded on a GPU."""
    architecture, defaults = release.architecture, read_generation(QWEN)
    stacks = load_stacks(QWEN, architecture.config, defaults, dtype=torch.float32, device=CPU, text_on_host=True)
    return TalkerModel(*stacks)


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory, release: Qwen3TTSRelease) -> dict[str, Qwen3TTSRelease]:
    """The releases by kind."""
    folder = tmp_path_factory.mktemp("qwen")
    others = {kind: Qwen3TTSRelease(as_kind(folder / kind, kind)) for kind in ("custom_voice", "voice_design")}
    return {"base": release, **others}
