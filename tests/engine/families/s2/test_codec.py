"""Strict codec reading: unexpected, missing, misshapen and broken tensors are rejected by name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.errors import InvalidCheckpoint, InvalidConfig, ReleaseIncomplete, ReleaseNotFound
from engine.families.s2.codec import codec_files, load_codec, load_codec_decoder, load_codec_encoder
from tests.engine.codec.conftest import CHECKPOINT
from tests.paths import MINIATURE

Release = dict[str, Tensor]


def have_equal_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def swap_weight_norm_spelling(release: Release) -> Release:
    """Swap the old and new key spellings of weight norm."""
    out = {}
    for key, value in release.items():
        for new, old in (
            (".parametrizations.weight.original0", ".weight_g"),
            (".parametrizations.weight.original1", ".weight_v"),
        ):
            if key.endswith(new):
                key = key.removesuffix(new) + old
            elif key.endswith(old):
                key = key.removesuffix(old) + new
        out[key] = value
    return out


LAYOUTS: dict[str, Callable[[Release], Any]] = {
    "nested and prefixed": lambda release: {
        "state_dict": {f"generator.{key}": value for key, value in release.items()},
        "epoch": 3,
    },
    "with buffers and renamed": lambda release: {
        **swap_weight_norm_spelling(release),
        "quantizer.pre_module.causal_mask": torch.ones(4, 4, dtype=torch.bool),
        "quantizer.pre_module.freqs_cis": torch.ones(4, 2, 2, dtype=torch.bfloat16),
    },
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_all_layouts_of_the_release_are_read(
    layout: str, whole: Codec, config: CodecConfig, release: Release, tmp_path: Path
) -> None:
    path = tmp_path / "codec.pth"
    torch.save(LAYOUTS[layout](release), path)
    assert have_equal_weights(load_codec(path, config), whole)


def test_safetensors_with_release_names_are_read(
    whole: Codec, config: CodecConfig, release: Release, tmp_path: Path
) -> None:
    save_file(release, tmp_path / "codec.safetensors")
    assert have_equal_weights(load_codec(tmp_path / "codec.safetensors", config), whole)


def test_safetensors_with_folded_weight_norm_are_read(whole: Codec, config: CodecConfig, tmp_path: Path) -> None:
    save_file(whole.state_dict(), tmp_path / "codec.safetensors")
    assert have_equal_weights(load_codec(tmp_path / "codec.safetensors", config), whole)


def test_half_precision_files_are_read_as_fp32(whole: Codec, config: CodecConfig, tmp_path: Path) -> None:
    save_file({name: w.half() for name, w in whole.state_dict().items()}, tmp_path / "codec.safetensors")
    loaded = load_codec_decoder(tmp_path / "codec.safetensors", config)
    weights = whole.state_dict()
    for name, weight in loaded.state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, weights[name].half().float())


def test_weight_norm_is_folded(whole: Codec, release: Release) -> None:
    """Compare with PyTorch's folding for a plain, a transposed and a 1x1 convolution."""
    for name in ("encoder.block.0.conv", "decoder.model.1.block.1.conv"):
        norm = release[f"{name}.parametrizations.weight.original0"]
        direction = release[f"{name}.parametrizations.weight.original1"]
        expected = torch._weight_norm(direction, norm, 0)
        torch.testing.assert_close(whole.get_parameter(f"{name}.weight"), expected)
    name = "quantizer.quantizer.quantizers.3.in_proj"
    expected = torch._weight_norm(release[f"{name}.weight_v"], release[f"{name}.weight_g"], 0)
    torch.testing.assert_close(whole.get_parameter(f"{name}.weight"), expected)


def test_views_are_frozen(whole: Codec) -> None:
    assert not whole.training
    assert not any(parameter.requires_grad for parameter in whole.parameters())


LOADERS = load_codec_encoder, load_codec_decoder, load_codec
GAMMA = "quantizer.pre_module.layers.1.ffn_layer_scale.gamma"
NORM = "decoder.model.0.conv.parametrizations.weight.original0"


def add_unknown(release: Release) -> None:
    release["quantizer.extra.weight"] = torch.zeros(1)


def misshape(release: Release) -> None:
    release[GAMMA] = torch.zeros(63)


def misshape_norm(release: Release) -> None:
    release[NORM] = torch.zeros(32)


def drop_norm(release: Release) -> None:
    del release[NORM]


def add_plain(release: Release) -> None:
    release["decoder.model.0.conv.weight"] = torch.zeros(32, 64, 7)


def spell_twice(release: Release) -> None:
    release[f"generator.{GAMMA}"] = release[GAMMA]


@pytest.mark.parametrize(
    ("change", "loaders", "message"),
    [
        (add_unknown, LOADERS, "unexpected tensors: quantizer.extra.weight"),
        (misshape, LOADERS, rf"misshapen tensors: {GAMMA} \[63\] instead of \[64\]"),
        (misshape_norm, LOADERS[:1], rf"misshapen tensors: {NORM} \[32\] instead of \[32, 1, 1\]"),
        (drop_norm, LOADERS[:1], "one half of a normed weight: decoder.model.0.conv.parametrizations.weight.original1"),
        (add_plain, LOADERS[:1], "both plain and normed: decoder.model.0.conv.weight"),
        (spell_twice, LOADERS[1:2], f"unexpected tensors: generator.{GAMMA}"),
    ],
)
def test_faulty_tensors_are_named_even_by_loaders_that_need_others(
    change: Callable[[Release], None],
    loaders: Sequence[Callable[[Path, CodecConfig], Any]],
    message: str,
    config: CodecConfig,
    release: Release,
    tmp_path: Path,
) -> None:
    change(release)
    torch.save(release, tmp_path / "codec.pth")
    for load in loaders:
        with pytest.raises(InvalidCheckpoint, match=message):
            load(tmp_path / "codec.pth", config)


def test_missing_weights_are_reported_by_views_that_need_them(
    config: CodecConfig, release: Release, tmp_path: Path
) -> None:
    del release[GAMMA]
    torch.save(release, tmp_path / "codec.pth")
    load_codec_decoder(tmp_path / "codec.pth", config)
    with pytest.raises(InvalidCheckpoint, match=f"lacks {GAMMA}"):
        load_codec_encoder(tmp_path / "codec.pth", config)


def test_long_lists_of_tensors_are_shortened(config: CodecConfig, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "codec.safetensors")
    with pytest.raises(InvalidCheckpoint, match="unexpected tensors: a"):
        load_codec(tmp_path / "codec.safetensors", config)
    save_file({"encoder.block.0.conv.bias": torch.zeros(4)}, tmp_path / "codec.safetensors")
    with pytest.raises(InvalidCheckpoint, match=r"lacks decoder.* and \d+ more"):
        load_codec(tmp_path / "codec.safetensors", config)


def test_config_of_other_sizes_is_rejected() -> None:
    with pytest.raises(InvalidCheckpoint, match=r"unexpected|misshapen"):
        load_codec_decoder(CHECKPOINT, CodecConfig.s2_pro())


@pytest.mark.parametrize("name", ["codec.pth", "codec.safetensors"])
def test_truncated_file_is_rejected(name: str, config: CodecConfig, whole: Codec, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith(".pth"):
        path.write_bytes(CHECKPOINT.read_bytes()[:100_000])
    else:
        save_file(whole.state_dict(), path)
        path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(ReleaseIncomplete, match="cut short"):
        load_codec_decoder(path, config)


class Harmful:
    """An object whose pickle runs code in an unrestricted unpickler."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (Path.touch, ("harm",))


def test_pickled_code_is_not_executed(config: CodecConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Harmful()}, tmp_path / "codec.pth")
    with pytest.raises(InvalidCheckpoint):
        load_codec_decoder(tmp_path / "codec.pth", config)
    assert not (tmp_path / "harm").exists()


def test_other_content_is_rejected(config: CodecConfig, tmp_path: Path) -> None:
    torch.save({"weights": [1, 2]}, tmp_path / "codec.pth")
    with pytest.raises(InvalidCheckpoint, match="not a plain state dict"):
        load_codec_decoder(tmp_path / "codec.pth", config)


def test_missing_file_is_named(config: CodecConfig, tmp_path: Path) -> None:
    with pytest.raises(ReleaseNotFound, match=r"no codec\.pth"):
        load_codec_decoder(tmp_path / "codec.pth", config)


def test_codec_files_are_found_in_a_release(config: CodecConfig, tmp_path: Path) -> None:
    assert codec_files(MINIATURE) == (CHECKPOINT, config)
    with pytest.raises(ReleaseNotFound, match="holds no codec"):
        codec_files(tmp_path)
    (tmp_path / "codec.pth").touch()
    assert codec_files(tmp_path) == (tmp_path / "codec.pth", CodecConfig.s2_pro())
    (tmp_path / "codec_config.json").write_text("{")
    with pytest.raises(InvalidConfig, match="not valid JSON"):
        codec_files(tmp_path)
