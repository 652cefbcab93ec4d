"""Strict config reading: unknown, missing and contradictory settings are named."""

import json
from typing import Any

import pytest
import torch

from engine.errors import InvalidConfig
from engine.families.s2.config import parse_dual_ar, parse_omni
from engine.families.s2.fast_ar import FastAR
from engine.families.s2.slow_ar import SlowAR
from tests.paths import MINIATURE


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


def test_omni_layout_is_read(raw: dict[str, Any]) -> None:
    config = parse_omni(raw)
    assert (config.slow.n_layer, config.fast.n_layer, config.num_codebooks) == (3, 2, 10)
    assert config.semantic_codebook_size == 256
    assert config.normed_fast_input
    assert config.scaled_codebook_embeddings


def test_settings_that_a_saved_configuration_leaves_out_are_those_of_its_class(raw: dict[str, Any]) -> None:
    for section in ("text_config", "audio_decoder_config"):
        for name in ("rope_base", "norm_eps", "attention_qkv_bias", "attention_o_bias"):
            del raw[section][name]
    config = parse_omni(raw)
    for sizes in (config.slow, config.fast):
        assert (sizes.rope_base, sizes.norm_eps) == (10_000, 1e-5)
        assert not sizes.attention_qkv_bias
        assert not sizes.attention_o_bias


_PUBLISHED_LAYERS = {
    "attention_o_bias": False,
    "attention_qkv_bias": False,
    "audio_hidden_dim": 5120,
    "dim": 2560,
    "dropout": 0.0,
    "head_dim": 128,
    "initializer_range": 0.01976423537605237,
    "intermediate_size": 9728,
    "n_head": 32,
    "n_local_heads": 8,
    "norm_eps": 1e-06,
    "rope_base": 1000000,
    "use_gradient_checkpointing": True,
    "use_moe": False,
}
# The settings of `fishaudio/s2-pro`.
PUBLISHED: dict[str, Any] = {
    "model_type": "fish_qwen3_omni",
    "dtype": "bfloat16",
    "eos_token_id": 151645,
    "pad_token_id": 151669,
    "audio_pad_token_id": 151677,
    "semantic_start_token_id": 151678,
    "semantic_end_token_id": 155773,
    "text_config": {
        **_PUBLISHED_LAYERS,
        "model_type": "fish_qwen3",
        "attention_qk_norm": True,
        "max_seq_len": 32768,
        "n_layer": 36,
        "tie_word_embeddings": True,
        "vocab_size": 155776,
    },
    "audio_decoder_config": {
        **_PUBLISHED_LAYERS,
        "model_type": "fish_qwen3_audio_decoder",
        "attention_qk_norm": False,
        "max_seq_len": 11,
        "n_layer": 4,
        "num_codebooks": 10,
        "text_dim": 2560,
        "tie_word_embeddings": False,
        "vocab_size": 4096,
    },
}
# What Fish Audio's configuration classes and Transformers add when they save a dense model.
_SAVED = {
    "audio_embed_dim": None,
    "num_experts": 1,
    "num_experts_per_tok": 1,
    "norm_topk_prob": True,
    "moe_intermediate_size": 768,
    "use_aux_loss_free": False,
    "router_gamma": 0.001,
    "use_bfloat16": False,
}


def _saved(config: dict[str, Any]) -> dict[str, Any]:
    sections = {name: config[name] | _SAVED for name in ("text_config", "audio_decoder_config")}
    return config | sections | {"audio_encoder_config": None, "transformers_version": "4.57.1"}


@pytest.mark.parametrize("config", [PUBLISHED, _saved(PUBLISHED)], ids=["published", "saved with all settings"])
def test_published_s2_pro_has_its_number_of_parameters(config: dict[str, Any]) -> None:
    sizes = parse_omni(config)
    with torch.device("meta"):
        slow, fast = SlowAR(sizes, end_id=0), FastAR(sizes)
    weights = [*slow.parameters(), *fast.parameters()]
    assert (len(weights), sum(each.numel() for each in weights)) == (358, 4_561_852_416)


@pytest.mark.parametrize("section", ["text_config", "audio_decoder_config"])
@pytest.mark.parametrize("value", [True, None, 0, "false"])
def test_mixtures_of_experts_are_rejected(raw: dict[str, Any], section: str, value: object) -> None:
    raw[section]["use_moe"] = value
    with pytest.raises(InvalidConfig, match=r"use_moe = .*only models with False"):
        parse_omni(raw)


def test_audio_encoders_are_rejected(raw: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=r"audio_encoder_config = .*only models with None"):
        parse_omni(raw | {"audio_encoder_config": {"d_model": 512}})


def test_flat_layout_shares_the_table_of_the_fast_ar() -> None:
    assert parse_dual_ar(FLAT | {"share_codebook_embeddings": True}, 400, 655) == parse_dual_ar(FLAT, 400, 655)
    with pytest.raises(InvalidConfig, match="share_codebook_embeddings = False"):
        parse_dual_ar(FLAT | {"share_codebook_embeddings": False}, 400, 655)


def test_flat_layout_defaults_fast_ar_to_slow_ar_settings() -> None:
    config = parse_dual_ar(FLAT, 400, 655)
    assert (config.fast.n_layer, config.fast.dim, config.fast.vocab_size) == (2, 32, 256)
    assert config.fast.intermediate_size == 96
    assert not config.normed_fast_input
    assert not config.scaled_codebook_embeddings


@pytest.mark.parametrize("section", [None, "text_config", "audio_decoder_config"])
def test_unknown_setting_is_named(raw: dict[str, Any], section: str | None) -> None:
    (raw if section is None else raw[section])["mystery"] = 1
    with pytest.raises(InvalidConfig, match="mystery"):
        parse_omni(raw)


@pytest.mark.parametrize("name", ["dim", "n_layer", "vocab_size"])
def test_missing_size_is_named(raw: dict[str, Any], name: str) -> None:
    del raw["text_config"][name]
    with pytest.raises(InvalidConfig, match=name):
        parse_omni(raw)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("dim", 0, "dim = 0"), ("n_local_heads", 3, "multiple"), ("head_dim", 7, "even")],
)
def test_contradictory_sizes_are_rejected(raw: dict[str, Any], name: str, value: int, says: str) -> None:
    raw["text_config"][name] = value
    with pytest.raises(InvalidConfig, match=says):
        parse_omni(raw)


def test_semantic_tokens_must_fit_the_vocabulary(raw: dict[str, Any]) -> None:
    raw["semantic_end_token_id"] = 5000
    with pytest.raises(InvalidConfig, match="do not fit"):
        parse_omni(raw)


@pytest.mark.parametrize("section", ["text_config", "audio_decoder_config"])
@pytest.mark.parametrize(
    "name", ["vocab_size", "n_layer", "n_head", "n_local_heads", "head_dim", "dim", "intermediate_size", "max_seq_len"]
)
def test_sizes_must_be_integers_within_bounds(raw: dict[str, Any], section: str, name: str) -> None:
    for value in (None, True, 1.0, "64", [], {}, -1, 1 << 31, 10**400):
        raw[section][name] = value
        with pytest.raises(InvalidConfig, match=f"{name} = .*whole number from 1|{name} = .*whole number from 2"):
            parse_omni(raw)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rope_base", value) for value in (None, "x", True, 1, -5, float("nan"), float("inf"), 10**400)),
        *(("norm_eps", value) for value in (None, [], 0, 2, float("nan"))),
        *(("tie_word_embeddings", value) for value in (None, 0, 1, "true")),
        *(("attention_qk_norm", value) for value in (None, 0, {})),
    ],
)
def test_other_settings_must_have_valid_type_and_value(raw: dict[str, Any], name: str, value: object) -> None:
    raw["text_config"][name] = value
    with pytest.raises(InvalidConfig, match=f"{name} = "):
        parse_omni(raw)


def test_sizes_with_an_excessive_product_are_rejected(raw: dict[str, Any]) -> None:
    for changes in ({"n_head": 256, "head_dim": 1024}, {"max_seq_len": 1 << 20}):
        text = {**raw["text_config"], **changes}
        with pytest.raises(InvalidConfig, match="cannot have as much"):
            parse_omni({**raw, "text_config": text})


@pytest.mark.parametrize("value", [None, [], "x", 3, [{}]])
@pytest.mark.parametrize("section", ["text_config", "audio_decoder_config"])
def test_section_must_be_an_object(raw: dict[str, Any], section: str, value: object) -> None:
    raw[section] = value
    with pytest.raises(InvalidConfig, match=f"{section} = .*must be a section"):
        parse_omni(raw)


@pytest.mark.parametrize("name", ["semantic_start_token_id", "semantic_end_token_id"])
@pytest.mark.parametrize("value", [None, "400", 1.5, -1, 1 << 40, []])
def test_token_ids_must_be_valid_integers(raw: dict[str, Any], name: str, value: object) -> None:
    raw[name] = value
    with pytest.raises(InvalidConfig):
        parse_omni(raw)


def test_fast_ar_needs_a_position_for_every_codebook(raw: dict[str, Any]) -> None:
    raw["audio_decoder_config"]["max_seq_len"] = 9
    with pytest.raises(InvalidConfig, match="9 positions for 10 codebooks"):
        parse_omni(raw)


@pytest.mark.parametrize("name", sorted(FLAT.keys() - {"model_type"}))
def test_flat_layout_rejects_invalid_values(name: str) -> None:
    for value in ("64", [], {}, -7, 0, 1.5, 1 << 40, *([] if name == "attention_qk_norm" else [True])):
        with pytest.raises(InvalidConfig):
            parse_dual_ar({**FLAT, name: value}, 400, 655)


def test_error_messages_are_short_for_any_content(raw: dict[str, Any]) -> None:
    for changes in ({"x" * 100_000: 1}, {"semantic_end_token_id": "y" * 100_000}, {"text_config": [0] * 100_000}):
        with pytest.raises(InvalidConfig) as raised:
            parse_omni({**raw, **changes})
        assert len(str(raised.value)) < 300
