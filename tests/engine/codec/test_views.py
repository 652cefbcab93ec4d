"""Encoder and decoder views compute exactly what the whole codec computes, from fewer tensors."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.codec.codec import Codec, CodecDecoder, CodecEncoder
from engine.codec.config import CodecConfig
from engine.errors import InvalidCodes
from engine.families.s2.codec import load_codec_decoder, load_codec_encoder

NOT_FOR_ENCODING = ("quantizer.post_module.", "quantizer.upsample.", "decoder.")
NOT_FOR_DECODING = ("encoder.", "quantizer.downsample.", "quantizer.pre_module.")


def is_needed_by(view: str, key: str) -> bool:
    if view == "encoder":
        return not key.startswith(NOT_FOR_ENCODING)
    return not key.startswith(NOT_FOR_DECODING) and ".in_proj." not in key


def noise(frames: float, config: CodecConfig, batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return 0.3 * torch.randn(batch, 1, int(frames * config.frame_length), generator=generator)


def random_codes(frames: int, config: CodecConfig, batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(6)
    rows = [torch.randint(size, (batch, frames), generator=generator) for size in config.codebook_sizes]
    return torch.stack(rows, 1)


def test_encoder_view_equals_whole_codec(encoder: CodecEncoder, whole: Codec, config: CodecConfig) -> None:
    audio = noise(7.3, config, batch=2)
    assert torch.equal(encoder.encode(audio), whole.encode(audio))


def test_decoder_view_equals_whole_codec(decoder: CodecDecoder, whole: Codec, config: CodecConfig) -> None:
    codes = random_codes(9, config, batch=2)
    assert torch.equal(decoder.decode(codes), whole.decode(codes))


@pytest.mark.parametrize("samples", [1, 2047, 2048, 2049])
def test_audio_is_padded_to_whole_frames(encoder: CodecEncoder, config: CodecConfig, samples: int) -> None:
    audio = noise(2, config)[..., :samples]
    codes = encoder.encode(audio)
    assert codes.shape == (1, config.num_codebooks, -(-samples // config.frame_length))
    silence = torch.zeros(1, 1, codes.shape[2] * config.frame_length - samples)
    assert torch.equal(codes, encoder.encode(torch.cat((audio, silence), 2)))


def test_codes_are_clamped_into_their_codebooks(decoder: CodecDecoder, config: CodecConfig) -> None:
    codes = random_codes(3, config)
    codes[:, 0, 1], codes[:, 4, 2] = 10**6, -1
    clamped = codes.clone()
    clamped[:, 0, 1], clamped[:, 4, 2] = config.quantizer.semantic_codebook_size - 1, 0
    assert torch.equal(decoder.decode(codes), decoder.decode(clamped))


def test_wrong_number_of_codebooks_is_rejected(decoder: CodecDecoder, config: CodecConfig) -> None:
    with pytest.raises(InvalidCodes, match="9 codebooks; the codec has 10"):
        decoder.decode(random_codes(3, config)[:, :9])


def layer_of_key(key: str) -> str:
    """Return the layer_of_key of a key, with or without weight normalization, in the release or in our modules."""
    return key.split(".parametrizations")[0].rpartition(".")[0] if ".conv." not in key else key.split(".conv.")[0]


@pytest.mark.parametrize("view", ["encoder", "decoder"])
def test_view_holds_only_needed_layers(
    view: str, encoder: CodecEncoder, decoder: CodecDecoder, release: dict[str, Tensor]
) -> None:
    module = encoder if view == "encoder" else decoder
    assert {layer_of_key(name) for name in module.state_dict()} == {
        layer_of_key(key) for key in release if is_needed_by(view, key)
    }


@pytest.mark.parametrize(
    ("view", "rest", "suffix"),
    [
        ("encoder", "absent", ".pth"),
        ("encoder", "nan", ".safetensors"),
        ("decoder", "absent", ".safetensors"),
        ("decoder", "nan", ".pth"),
    ],
)
def test_view_ignores_unneeded_tensors(
    view: str,
    rest: str,
    suffix: str,
    config: CodecConfig,
    decoder: CodecDecoder,
    golden: dict[str, Tensor],
    release: dict[str, Tensor],
    tmp_path: Path,
) -> None:
    for key in list(release):
        if not is_needed_by(view, key):
            if rest == "nan":
                release[key].fill_(torch.nan)
            else:
                del release[key]
    path = tmp_path / f"codec{suffix}"
    if suffix == ".pth":
        torch.save(release, path)
    else:
        save_file(release, path)
    if view == "encoder":
        codes = load_codec_encoder(path, config).encode(golden["wav"])
        assert torch.equal(codes, golden["codes"].long())
    else:
        audio = load_codec_decoder(path, config).decode(golden["codes"].long())
        assert torch.equal(audio, decoder.decode(golden["codes"].long()))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_view_owns_only_its_weights(
    suffix: str, config: CodecConfig, decoder: CodecDecoder, release: dict[str, Tensor], tmp_path: Path
) -> None:
    """No storage is larger than its weight, and the view works after the file is overwritten."""
    path = tmp_path / f"codec{suffix}"
    if suffix == ".pth":
        torch.save(release, path)
    else:
        save_file(release, path)
    view = load_codec_decoder(path, config)
    size = path.stat().st_size
    path.write_bytes(bytes(size))
    for name, weight in view.state_dict().items():
        assert weight.untyped_storage().nbytes() == weight.nbytes, name
    codes = random_codes(5, config)
    assert torch.equal(view.decode(codes), decoder.decode(codes))


def test_s2_pro_views_have_published_sizes() -> None:
    """Check parameters in millions and the sizes of the views in MiB against those published for S2-Pro."""
    config = CodecConfig.s2_pro()
    with torch.device("meta"):
        whole, encoder, decoder = Codec(config), CodecEncoder(config), CodecDecoder(config)

    def millions(*modules: torch.nn.Module) -> float:
        return round(sum(p.numel() for module in modules for p in module.parameters()) / 1e6, 1)

    quantizer = whole.quantizer
    assert millions(whole.encoder) == 76.8
    assert millions(whole.decoder) == 54.1
    assert millions(quantizer.pre_module) == millions(quantizer.post_module) == 109.1
    assert millions(quantizer.downsample) == millions(quantizer.upsample) == 21.0
    assert millions(quantizer.semantic_quantizer, quantizer.quantizer) == 0.3

    def mib(module: torch.nn.Module) -> int:
        return round(sum(p.nbytes for p in module.parameters()) / 2**20)

    assert (mib(encoder), mib(decoder)) == (790, 703)
