"""Configs are read strictly: what is unknown, missing or contradictory is named."""

import json
from typing import Any

import pytest

from engine.config import parse_dual_ar, parse_omni
from engine.errors import InvalidConfig
from tests.engine.conftest import MINIATURE


@pytest.fixture
def raw() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((MINIATURE / "config.json").read_text())
    return values


FLAT = {
    "model_type": "dual_ar",
    "vocab_size": 700,
    "n_layer": 3,
    "n_head": 4,
    "n_local_heads": 2,
    "head_dim": 16,
    "dim": 64,
    "intermediate_size": 96,
    "max_seq_len": 512,
    "attention_qk_norm": True,
    "codebook_size": 256,
    "num_codebooks": 10,
    "n_fast_layer": 2,
    "fast_dim": 32,
    "fast_n_head": 2,
    "fast_head_dim": 16,
}


def test_the_omni_layout_is_read(raw: dict[str, Any]) -> None:
    config = parse_omni(raw)
    assert (config.slow.n_layer, config.fast.n_layer, config.num_codebooks) == (3, 2, 10)
    assert config.semantic_codebook_size == 256
    assert config.normed_fast_input
    assert config.scaled_codebook_embeddings


def test_the_flat_layout_takes_what_it_does_not_say_from_the_slow_ar() -> None:
    config = parse_dual_ar(FLAT, 400, 655)
    assert (config.fast.n_layer, config.fast.dim, config.fast.vocab_size) == (2, 32, 256)
    assert config.fast.intermediate_size == 96
    assert not config.normed_fast_input
    assert not config.scaled_codebook_embeddings


@pytest.mark.parametrize("section", [None, "text_config", "audio_decoder_config"])
def test_an_unknown_setting_is_named(raw: dict[str, Any], section: str | None) -> None:
    (raw if section is None else raw[section])["mystery"] = 1
    with pytest.raises(InvalidConfig, match="mystery"):
        parse_omni(raw)


@pytest.mark.parametrize("name", ["dim", "n_layer", "vocab_size"])
def test_a_missing_size_is_named(raw: dict[str, Any], name: str) -> None:
    del raw["text_config"][name]
    with pytest.raises(InvalidConfig, match=name):
        parse_omni(raw)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("dim", 0, "dim = 0"), ("n_local_heads", 3, "multiple"), ("head_dim", 7, "even")],
)
def test_contradictory_sizes_are_refused(raw: dict[str, Any], name: str, value: int, says: str) -> None:
    raw["text_config"][name] = value
    with pytest.raises(InvalidConfig, match=says):
        parse_omni(raw)


def test_semantic_tokens_must_fit(raw: dict[str, Any]) -> None:
    raw["semantic_end_token_id"] = 5000
    with pytest.raises(InvalidConfig, match="do not fit"):
        parse_omni(raw)
