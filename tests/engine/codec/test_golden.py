"""Golden tests against the public reference: codes are equal, latents and audio agree within fp32 rounding."""

import pytest
import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.codec.views import whole_frames


@torch.inference_mode()
def test_encoder_intermediate_latents_match_reference(
    whole: Codec, config: CodecConfig, golden: dict[str, Tensor]
) -> None:
    latents = whole.encoder(whole_frames(golden["wav"], config.frame_length))
    torch.testing.assert_close(latents, golden["tap_encoder"], rtol=0, atol=3e-5)
    latents = whole.quantizer.downsample(latents)
    torch.testing.assert_close(latents, golden["tap_downsample"], rtol=0, atol=3e-5)
    latents = whole.quantizer.pre_module(latents)
    torch.testing.assert_close(latents, golden["tap_pre_module"], rtol=0, atol=3e-5)


def test_encoded_codes_equal_reference(whole: Codec, golden: dict[str, Tensor]) -> None:
    codes = whole.encode(golden["wav"])
    assert codes.dtype == torch.int64
    assert torch.equal(codes, golden["codes"].long())
    assert codes.shape[2] == golden["code_lengths"].item()


@torch.inference_mode()
def test_quantizer_decode_matches_reference(whole: Codec, golden: dict[str, Tensor]) -> None:
    latents = whole.quantizer.decode(golden["random_codes"].long())
    torch.testing.assert_close(latents, golden["tap_quantizer_decode"], rtol=0, atol=3e-6)


@pytest.mark.parametrize(("codes", "audio"), [("codes", "audio"), ("random_codes", "random_audio")])
def test_decoded_audio_matches_reference(whole: Codec, golden: dict[str, Tensor], codes: str, audio: str) -> None:
    torch.testing.assert_close(whole.decode(golden[codes].long()), golden[audio], rtol=0, atol=1.5e-6)
