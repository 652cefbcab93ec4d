"""Strict config reading: unknown, missing and contradictory settings are named."""

import json
from typing import Any

import pytest

from engine.errors import InvalidConfig
from engine.families.s2.config import parse_dual_ar, parse_omni
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
@pytest.mark.parametrize("value", [None, True, 1.0, "64", [], {}, -1, 1 << 31, 10**400])
def test_sizes_must_be_integers_within_bounds(raw: dict[str, Any], section: str, name: str, value: object) -> None:
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
@pytest.mark.parametrize("value", ["64", [], {}, -7, 0, 1.5, 1 << 40, True])
def test_flat_layout_rejects_invalid_values(name: str, value: object) -> None:
    if name == "attention_qk_norm" and value is True:
        return
    with pytest.raises(InvalidConfig):
        parse_dual_ar({**FLAT, name: value}, 400, 655)


def test_error_messages_are_short_for_any_content(raw: dict[str, Any]) -> None:
    for changes in ({"x" * 100_000: 1}, {"semantic_end_token_id": "y" * 100_000}, {"text_config": [0] * 100_000}):
        with pytest.raises(InvalidConfig) as raised:
            parse_omni({**raw, **changes})
        assert len(str(raised.value)) < 300
