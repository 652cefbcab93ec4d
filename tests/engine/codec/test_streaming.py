"""Pieces equal the whole, for every way of cutting it, and the state neither grows nor wears out."""

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.codec.codec import CodecDecoder, CodecEncoder, DecoderState
from engine.codec.config import CodecConfig
from engine.codec.streaming import StreamingState
from engine.codec.transformer import TransformerState
from tests.engine.codec.test_views import noise, random_codes

FRAMES = 40
HOUR = 80_000  # frames, a little more than an hour of S2-Pro's


@pytest.fixture(scope="module")
def codes(config: CodecConfig) -> Tensor:
    return random_codes(FRAMES, config)


@pytest.fixture(scope="module")
def audio(decoder: CodecDecoder, codes: Tensor) -> Tensor:
    return decoder.decode(codes)


def decode_in(
    chunks: Iterable[int], decoder: CodecDecoder, codes: Tensor, state: StreamingState | None = None
) -> Tensor:
    state = decoder.init_state(codes.shape[0]) if state is None else state
    assert isinstance(state, DecoderState)
    out, start = [], 0
    for size in chunks:
        piece = codes[:, :, start : start + size]
        out.append(decoder.decode_step(piece, state))
        assert out[-1].shape[2] == piece.shape[2] * decoder.config.frame_length
        start += size
    assert start >= codes.shape[2]
    return torch.cat(out, 2)


def encode_in(chunks: Iterable[int], encoder: CodecEncoder, audio: Tensor) -> Tensor:
    state, frame = encoder.init_state(audio.shape[0]), encoder.config.frame_length
    out, start = [], 0
    for size in chunks:
        out.append(encoder.encode_step(audio[..., start * frame : (start + size) * frame], state))
        start += size
    assert start * frame >= audio.shape[2]
    return torch.cat(out, 2)


def equal_chunks(size: int) -> list[int]:
    return [size] * -(-FRAMES // size)


@st.composite
def cuts(draw: st.DrawFn) -> list[int]:
    """Sizes of at least 1 that make up all frames."""
    at = sorted(draw(st.sets(st.integers(1, FRAMES - 1), max_size=FRAMES - 1)))
    return [b - a for a, b in zip([0, *at], [*at, FRAMES], strict=True)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 9, 12, 16, FRAMES - 1, FRAMES])
def test_decoder_in_equal_chunks(decoder: CodecDecoder, codes: Tensor, audio: Tensor, size: int) -> None:
    pieces = decode_in(equal_chunks(size), decoder, codes)
    torch.testing.assert_close(pieces, audio, rtol=0, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(chunks=cuts())
def test_decoder_in_any_chunks(decoder: CodecDecoder, codes: Tensor, audio: Tensor, chunks: list[int]) -> None:
    torch.testing.assert_close(decode_in(chunks, decoder, codes), audio, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 8, 16, FRAMES])
def test_encoder_in_equal_pieces(encoder: CodecEncoder, config: CodecConfig, size: int) -> None:
    clip = noise(FRAMES, config)
    assert torch.equal(encode_in(equal_chunks(size), encoder, clip), encoder.encode(clip))


@settings(max_examples=5, deadline=None)
@given(chunks=cuts())
def test_encoder_in_any_pieces(encoder: CodecEncoder, config: CodecConfig, chunks: list[int]) -> None:
    clip = noise(FRAMES, config)
    assert torch.equal(encode_in(chunks, encoder, clip), encoder.encode(clip))


@torch.inference_mode()
def test_encoder_latents_in_pieces(encoder: CodecEncoder, config: CodecConfig) -> None:
    """What the codes are made from, so that rounding cannot hide behind the codebooks."""
    clip, state = noise(FRAMES, config), encoder.init_state()
    pieces = []
    for piece in clip.split(3 * config.frame_length, dim=2):
        latents = encoder.encoder(piece, state.encoder)
        latents = encoder.quantizer.downsample(latents, state.quantizer.downsample)
        pieces.append(encoder.quantizer.pre_module(latents, state.quantizer.pre_module))
    offline = encoder.quantizer.pre_module(encoder.quantizer.downsample(encoder.encoder(clip)))
    torch.testing.assert_close(torch.cat(pieces, 2), offline, rtol=0, atol=2e-5)


@pytest.mark.parametrize("samples", [0, 1, 2047, 3000])
def test_encoder_refuses_broken_frames(encoder: CodecEncoder, config: CodecConfig, samples: int) -> None:
    with pytest.raises(ValueError, match="whole frames of 2048"):
        encoder.encode_step(noise(2, config)[..., :samples], encoder.init_state())


def test_rows_do_not_mix(decoder: CodecDecoder, config: CodecConfig) -> None:
    both = random_codes(12, config, batch=2)
    together = decode_in([5, 4, 3], decoder, both)
    for row in range(2):
        alone = decode_in([5, 4, 3], decoder, both[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-6)


def test_reset_starts_over(decoder: CodecDecoder, codes: Tensor, audio: Tensor) -> None:
    state = decoder.init_state()
    decode_in([11, FRAMES], decoder, codes, state)
    state.reset()
    again = decode_in(equal_chunks(8), decoder, codes, state)
    torch.testing.assert_close(again, audio, rtol=0, atol=1e-6)


def test_reset_of_one_row_leaves_the_other(decoder: CodecDecoder, config: CodecConfig) -> None:
    both = random_codes(24, config, batch=2)
    state = decoder.init_state(2)
    decoder.decode_step(both[:, :, :12], state)
    state.reset(torch.tensor([True, False]))
    after = decoder.decode_step(both[:, :, 12:], state)
    fresh = decoder.decode(both[:1, :, 12:])
    carried = decoder.decode(both[1:])[..., 12 * config.frame_length :]
    torch.testing.assert_close(after, torch.cat((fresh, carried)), rtol=0, atol=1e-6)


def test_clones_go_their_own_way(decoder: CodecDecoder, codes: Tensor) -> None:
    state = decoder.init_state()
    decoder.decode_step(codes[:, :, :10], state)
    twin = state.clone()
    before = [buffer.clone() for buffer in twin.tensors()]
    first = decoder.decode_step(codes[:, :, 10:20], state)
    assert all(torch.equal(a, b) for a, b in zip(before, twin.tensors(), strict=True))
    assert torch.equal(decoder.decode_step(codes[:, :, 10:20], twin), first)


def test_state_never_grows(decoder: CodecDecoder, config: CodecConfig) -> None:
    state = decoder.init_state()
    buffers = [(buffer.data_ptr(), buffer.shape) for buffer in state.tensors()]
    size = state.nbytes()
    for frames in (1, 40, 3, 100, 1):
        decoder.decode_step(random_codes(frames, config), state)
    assert [(buffer.data_ptr(), buffer.shape) for buffer in state.tensors()] == buffers
    assert state.nbytes() == size == sum(buffer.nbytes for buffer in state.tensors())


def transformers(state: StreamingState) -> Iterable[TransformerState]:
    if isinstance(state, TransformerState):
        yield state
    for value in vars(state).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, StreamingState):
                yield from transformers(part)


def aged(decoder: CodecDecoder, position: int) -> DecoderState:
    """A state as if `position` frames had been decoded."""
    state = decoder.init_state()
    found = list(transformers(state))
    assert found
    for transformer in found:
        transformer.position.fill_(position)
    return state


@pytest.mark.parametrize("position", [HOUR, 100 * HOUR, 10**12])
def test_chunks_far_out_are_still_exact(decoder: CodecDecoder, codes: Tensor, position: int) -> None:
    at_once = decode_in([FRAMES], decoder, codes, aged(decoder, position))
    one_by_one = decode_in([1] * FRAMES, decoder, codes, aged(decoder, position))
    torch.testing.assert_close(one_by_one, at_once, rtol=0, atol=1e-6)


@pytest.mark.parametrize("position", [HOUR, 100 * HOUR])
def test_audio_far_out_is_that_of_the_start(decoder: CodecDecoder, config: CodecConfig, position: int) -> None:
    """Only distances count, so once the receptive field is full the hour before makes no difference.

    All that may differ is the rounding of the rotary table, which is part of the model.
    """
    transformer = config.quantizer.transformer
    warm = transformer.n_layer * transformer.window_size + 8
    codes = random_codes(warm + 20, config)
    late = decode_in([warm, 7, 13], decoder, codes, aged(decoder, position))
    early = decoder.decode(codes)
    settled = slice(warm * config.frame_length, None)
    difference = (late - early)[..., settled].abs().max()
    assert difference < 1e-3 * early[..., settled].abs().max()
