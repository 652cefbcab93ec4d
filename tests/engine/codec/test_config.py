"""`CodecConfig` is frozen, and rejects unknown, missing, malformed and contradictory settings."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from engine.codec.config import CodecConfig
from engine.errors import InvalidConfig
from tests.paths import MINIATURE


@pytest.fixture
def values() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MINIATURE / "codec_config.json").read_text())
    return found


def test_miniature_config_has_expected_sizes(values: dict[str, Any]) -> None:
    config = CodecConfig.from_dict(values)
    assert (config.hop_length, config.frame_length, config.num_codebooks) == (512, 2048, 10)
    assert config.codebook_sizes == (256, *[64] * 9)
    assert config.encoder_transformer(2) is None
    assert config.encoder_transformer(3) is not None
    assert config.quantizer.transformer.final_norm


def test_s2_pro_config_has_published_sizes() -> None:
    config = CodecConfig.s2_pro()
    assert (config.sample_rate, config.hop_length, config.frame_length) == (44_100, 512, 2048)
    assert config.frame_rate == pytest.approx(21.53, abs=0.01)
    assert config.codebook_sizes == (4096, *[1024] * 9)
    transformer = config.encoder_transformer(3)
    assert transformer is not None
    assert (transformer.dim, transformer.n_head, transformer.n_layer, transformer.window_size) == (
        1024,
        16,
        4,
        512,
    )


def test_config_survives_json_round_trip() -> None:
    config = CodecConfig.s2_pro()
    assert CodecConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_config_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CodecConfig.s2_pro().sample_rate = 8000  # type: ignore[misc]  # assignment must fail


def resolve_setting(values: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    *sections, name = path.split(".")
    for section in sections:
        values = values[section]
    return values, name


@pytest.mark.parametrize("path", ["colour", "quantizer.colour", "quantizer.transformer.colour"])
def test_unknown_setting_is_named_in_error(values: dict[str, Any], path: str) -> None:
    section, name = resolve_setting(values, path)
    section[name] = 1
    with pytest.raises(InvalidConfig, match="does not know: colour"):
        CodecConfig.from_dict(values)


@pytest.mark.parametrize(
    "path",
    [
        "latent_dim",
        "quantizer",
        "quantizer.codebook_dim",
        "quantizer.transformer",
        "quantizer.transformer.dim",
    ],
)
def test_missing_setting_is_named_in_error(values: dict[str, Any], path: str) -> None:
    section, name = resolve_setting(values, path)
    del section[name]
    with pytest.raises(InvalidConfig, match=f"lacks {name}"):
        CodecConfig.from_dict(values)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sample_rate", 0, "sample_rate = 0"),
        ("sample_rate", "44100", "sample_rate = '44100'"),
        ("encoder_dim", True, "encoder_dim = True"),
        ("encoder_rates", [2, 4, 8, 4], "differ in their product"),
        ("encoder_rates", [], "encoder_rates"),
        ("decoder_rates", 8, "decoder_rates = 8"),
        ("decoder_dim", 24, "cannot be halved"),
        ("encoder_transformer_layers", [1], "one number per block"),
        ("encoder_transformer_layers", [1, 0, 0, 0], "0 heads|n_head = 0"),
        ("latent_dim", 32, "latents are 32 wide"),
        ("frame_length", 1024, "frame_length = 1024, but its rates make 2048"),
        ("quantizer", 3, "must be a section"),
        ("quantizer.downsample_factor", [2, -2], "downsample_factor"),
        ("quantizer.input_dim", 32, "32 wide"),
        ("quantizer.transformer.n_head", 2, "2 heads of 64"),
        ("quantizer.transformer.norm_eps", 0, "norm_eps"),
        ("quantizer.transformer.window_size", 0, "window_size = 0"),
    ],
)
def test_invalid_or_contradictory_setting_is_rejected(
    values: dict[str, Any], path: str, value: object, message: str
) -> None:
    section, name = resolve_setting(values, path)
    section[name] = value
    with pytest.raises(InvalidConfig, match=message):
        CodecConfig.from_dict(values)


SIZES = ("sample_rate", "encoder_dim", "latent_dim", "decoder_dim", "encoder_transformer_window")
INNER = ("input_dim", "n_codebooks", "codebook_size", "codebook_dim", "semantic_codebook_size")
TRANSFORMER = ("n_layer", "n_head", "head_dim", "dim", "intermediate_size", "window_size")


@pytest.mark.parametrize(
    "path",
    [*SIZES, *(f"quantizer.{name}" for name in INNER), *(f"quantizer.transformer.{name}" for name in TRANSFORMER)],
)
def test_size_must_be_an_integer_within_bounds(values: dict[str, Any], path: str) -> None:
    section, name = resolve_setting(values, path)
    for value in (None, True, 1.0, "64", [], {}, -1, 0, 1 << 31, 10**400):
        section[name] = value
        with pytest.raises(InvalidConfig, match=f"{name} = .*whole number from 1 to"):
            CodecConfig.from_dict(values)


@pytest.mark.parametrize("path", ["encoder_rates", "decoder_rates", "quantizer.downsample_factor"])
def test_rates_must_be_a_short_list_of_small_integers(values: dict[str, Any], path: str) -> None:
    section, name = resolve_setting(values, path)
    for value in (None, 8, "2", {}, [], [0], [65], [True], ["2"], [[2]], [2] * 9, [None]):
        section[name] = value
        with pytest.raises(InvalidConfig, match=name):
            CodecConfig.from_dict(values)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(
            ("encoder_transformer_layers", value)
            for value in (None, 3, "x", [0, 0, 0, 65], [0, 0, 0, -1], [0, 0, 0, None])
        ),
        *(("quantizer.transformer.rope_base", value) for value in (None, "x", [], 1, float("nan"), 10**400)),
        *(("quantizer.transformer.norm_eps", value) for value in (None, "x", 2, float("inf"))),
        ("quantizer.transformer.final_norm", 1),
        ("quantizer.transformer", [1]),
        ("quantizer", None),
        ("hop_length", "512"),
    ],
)
def test_other_settings_must_have_valid_type_and_value(values: dict[str, Any], path: str, value: object) -> None:
    section, name = resolve_setting(values, path)
    section[name] = value
    with pytest.raises(InvalidConfig, match=name):
        CodecConfig.from_dict(values)


def test_excessive_frame_length_is_rejected(values: dict[str, Any]) -> None:
    values["quantizer"]["downsample_factor"] = [64, 64]
    values.pop("frame_length", None)
    with pytest.raises(InvalidConfig, match="make frames of"):
        CodecConfig.from_dict(values)


def test_odd_head_dim_is_rejected(values: dict[str, Any]) -> None:
    values["quantizer"]["transformer"].update(n_head=64, head_dim=1)
    with pytest.raises(InvalidConfig, match="head_dim = 1"):
        CodecConfig.from_dict(values)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_file_without_config_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "codec_config.json"
    path.write_text(text)
    with pytest.raises(InvalidConfig, match=r"codec_config\.json"):
        CodecConfig.from_json(path)
