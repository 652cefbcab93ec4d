"""Sizes and files of the bundled codec, and codecs that grow.

A grown codec has more weights, the codes and the sound of the one before, and learns with all of them.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.families.s2.codec import codec_files, load_codec
from engine.release.hub import BUNDLED
from training.codec.growth import grown
from training.codec.sizes import bundled_codec_config, write_codec
from training.settings import REFINED, TINY
from training.work import TrainingError


def test_sizes_are_those_of_the_bundled_codec() -> None:
    assert codec_files(BUNDLED)[1] == bundled_codec_config()


def test_written_codec_is_readable_by_all(tmp_path: Path) -> None:
    write_codec(tmp_path / "codec", {"weight": torch.zeros(2, 2).T}, bundled_codec_config())
    file, config = codec_files(tmp_path / "codec")
    assert config == bundled_codec_config()
    assert file.stat().st_mode & 0o777 == 0o644


def larger(config: CodecConfig, *, width: int = 2, layers: int = 2) -> CodecConfig:
    transformer = replace(config.quantizer.transformer, n_layer=config.quantizer.transformer.n_layer + layers)
    quantizer = replace(config.quantizer, transformer=transformer)
    return replace(config, encoder_dim=width * config.encoder_dim, quantizer=quantizer)


def audio() -> Tensor:
    return torch.randn(2, 1, 8 * TINY.codec.frame_length, generator=torch.Generator().manual_seed(1)) * 0.1


def decoded(codec: Codec, audio: Tensor) -> Tensor:
    return codec.decode(codec.encode(audio))


@pytest.mark.parametrize(("width", "layers"), [(2, 2), (1, 1), (3, 0), (1, 0)])
def test_grown_codec_has_the_same_codes_and_sound(width: int, layers: int) -> None:
    torch.manual_seed(0)
    codec = Codec(TINY.codec).eval()
    after = grown(codec, larger(TINY.codec, width=width, layers=layers)).eval()
    with torch.inference_mode():
        assert torch.equal(after.encode(audio()), codec.encode(audio()))
        torch.testing.assert_close(decoded(after, audio()), decoded(codec, audio()))


def test_all_weights_of_a_grown_codec_change_its_latents_after_two_steps() -> None:
    """Weights behind the zeros get a gradient once these have moved."""
    torch.manual_seed(0)
    after = grown(Codec(TINY.codec), larger(TINY.codec))
    parts = torch.nn.ModuleList([after.encoder, after.quantizer.downsample, after.quantizer.pre_module])
    optimiser = torch.optim.SGD(parts.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        latents = after.quantizer.pre_module(after.quantizer.downsample(after.encoder(audio())))
        (latents - 1).square().mean().backward()
        optimiser.step()
    for name, weight in parts.named_parameters():
        assert weight.grad is not None, name
        assert (weight.grad.flatten(1) if weight.dim() > 1 else weight.grad).abs().amax(-1).gt(0).all(), name


def test_other_differences_are_rejected() -> None:
    codec = Codec(TINY.codec)
    narrower = replace(TINY.codec, encoder_dim=TINY.codec.encoder_dim // 2)
    other_decoder = replace(TINY.codec, decoder_dim=2 * TINY.codec.decoder_dim)
    more_codes = replace(TINY.codec, quantizer=replace(TINY.codec.quantizer, codebook_size=32))
    for config in (narrower, other_decoder, more_codes):
        with pytest.raises(TrainingError, match="can grow"):
            grown(codec, config)


def test_bundled_codec_can_grow_to_the_sizes_of_the_refined_setting() -> None:
    codec = load_codec(*codec_files(BUNDLED))
    after = grown(codec, REFINED.codec)
    assert after.config == REFINED.codec
    assert torch.equal(after.encode(audio()[:, :, :4096]), codec.encode(audio()[:, :, :4096]))
