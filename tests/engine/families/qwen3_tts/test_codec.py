"""Views of the speech tokenizer: bit-identical to the whole, without unneeded weights, exact in any pieces."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.errors import InvalidCheckpoint, InvalidCodes
from engine.families.qwen3_tts.codec import SpeechDecoder, SpeechEncoder
from engine.families.qwen3_tts.codec_config import ENCODER_WINDOW
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from engine.families.qwen3_tts.weights import load_speech_tokenizer
from tests.engine.families.qwen3_tts.conftest import CPU, golden
from tests.paths import QWEN

FRAMES = 24  # more than the decoder's window


@pytest.fixture(scope="module")
def decoder(release: Qwen3TTSRelease) -> SpeechDecoder:
    return release.load_decoder(CPU)


@pytest.fixture(scope="module")
def encoder(release: Qwen3TTSRelease) -> SpeechEncoder:
    return release.load_encoder(CPU)


def pieces(whole: Tensor, lengths: list[int], unit: int = 1) -> Iterator[Tensor]:
    """Cut a signal into pieces, cycling through `lengths`."""
    start, i = 0, 0
    while start < whole.shape[-1]:
        yield whole[..., start : start + lengths[i % len(lengths)] * unit]
        start += lengths[i % len(lengths)] * unit
        i += 1


def test_views_are_bit_identical_to_the_whole(
    release: Qwen3TTSRelease, encoder: SpeechEncoder, decoder: SpeechDecoder
) -> None:
    whole = load_speech_tokenizer(QWEN, release.architecture.codec, CPU)
    clip, codes = golden()["clip"][None, None], golden()["decoder_codes"][None]
    assert torch.equal(encoder.encode(clip), whole.encoder.encode(clip))
    assert torch.equal(decoder.decode(codes), whole.decoder.decode(codes))
    held = [sum(weight.numel() for weight in module.parameters()) for module in (encoder, decoder, whole)]
    assert held[0] + held[1] == held[2]  # the views share no weights


def test_fingerprint_value_is_stable(release: Qwen3TTSRelease, decoder: SpeechDecoder) -> None:
    """Stored voices carry the fingerprint; if it changes, all of them are encoded again."""
    assert release.fingerprint(decoder) == "68b844e9e4c87b728145581ac812cd7e"


@settings(deadline=None, max_examples=8)
@given(lengths=st.lists(st.integers(1, 13), min_size=1, max_size=5))
def test_decoding_in_any_pieces_equals_whole_decoding(decoder: SpeechDecoder, lengths: list[int]) -> None:
    codes = golden()["decoder_codes"][None, :, :FRAMES]
    state = decoder.init_state(1)
    audio = torch.cat([decoder.decode_step(piece, state) for piece in pieces(codes, lengths)], dim=-1)
    torch.testing.assert_close(audio, decoder.decode(codes), rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=5)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_encoding_in_any_pieces_equals_whole_encoding(encoder: SpeechEncoder, lengths: list[int]) -> None:
    clip, state = golden()["clip"][None, None], encoder.init_state(1)
    found = [encoder.encode_step(piece, state) for piece in pieces(clip, lengths, encoder.config.frame_length)]
    assert torch.equal(torch.cat(found, dim=-1), encoder.encode(clip))


def test_encoder_window_covers_the_longest_clip(release: Qwen3TTSRelease) -> None:
    codec = release.architecture.codec
    assert 30 * 2 * codec.frame_rate < ENCODER_WINDOW == codec.encoder_transformer.window_size


def test_batch_rows_begin_independently(encoder: SpeechEncoder) -> None:
    clip = golden()["clip"][None, None, : 3 * encoder.config.frame_length]
    state = encoder.init_state(2)
    encoder.encode_step(torch.cat((clip.flip(2), clip)), state)
    state.put(torch.tensor([0]), encoder.init_state(1))
    again = encoder.encode_step(torch.cat((clip, clip)), state)
    assert torch.equal(again[:1], encoder.encode(clip))


def test_invalid_codes_and_files_are_rejected(release: Qwen3TTSRelease, decoder: SpeechDecoder) -> None:
    with pytest.raises(InvalidCodes, match="3 codebooks"):
        decoder.decode(torch.zeros(1, 3, 2, dtype=torch.long))
    from dataclasses import replace

    with pytest.raises(InvalidCheckpoint, match="decoder"):
        load_speech_tokenizer(QWEN, replace(release.architecture.codec, latent_dim=18), CPU)
