"""The codec fingerprint depends on the meaning of codes, not on the view or file format it is computed from."""

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.codec.codec import Codec, CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import load_codec_decoder


def test_all_views_have_equal_fingerprints(whole: Codec, encoder: CodecEncoder, decoder: CodecDecoder) -> None:
    assert codec_fingerprint(encoder) == codec_fingerprint(decoder) == codec_fingerprint(whole)


def test_fingerprint_value_is_stable(decoder: CodecDecoder) -> None:
    """Stored voices carry the fingerprint; if it changes, all of them are encoded again."""
    assert codec_fingerprint(decoder) == "90256092be8ed875d6b55efac484b493"


def test_safetensors_and_pth_have_equal_fingerprints(
    whole: Codec, decoder: CodecDecoder, config: CodecConfig, tmp_path: Path
) -> None:
    save_file(whole.state_dict(), tmp_path / "codec.safetensors")
    folded = load_codec_decoder(tmp_path / "codec.safetensors", config)
    assert codec_fingerprint(folded) == codec_fingerprint(decoder)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("quantizer.semantic_quantizer.quantizers.0.codebook.weight", True),
        ("quantizer.quantizer.quantizers.8.codebook.weight", True),
        ("quantizer.quantizer.quantizers.0.out_proj.bias", True),
        ("decoder.model.0.conv.bias", False),  # a better decoder keeps the meaning of codes
    ],
)
def test_fingerprint_depends_on_quantizer_weights_only(
    key: str,
    changes: bool,
    decoder: CodecDecoder,
    config: CodecConfig,
    release: dict[str, Tensor],
    tmp_path: Path,
) -> None:
    release[key].view(-1)[-1] += 1e-3
    torch.save(release, tmp_path / "codec.pth")
    other = load_codec_decoder(tmp_path / "codec.pth", config)
    assert (codec_fingerprint(other) != codec_fingerprint(decoder)) == changes


def test_fingerprint_depends_on_config(
    decoder: CodecDecoder, config: CodecConfig, release: dict[str, Tensor], tmp_path: Path
) -> None:
    torch.save(release, tmp_path / "codec.pth")
    other = load_codec_decoder(tmp_path / "codec.pth", dataclasses.replace(config, sample_rate=22_050))
    assert codec_fingerprint(other) != codec_fingerprint(decoder)
