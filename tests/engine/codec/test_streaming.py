"""Streaming output equals offline output for any chunk sizes, and the state keeps its size and precision."""

from collections.abc import Iterable
from functools import cache

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

FRAMES = 24  # longer than the decoder's transformer looks back
HOUR = 80_000  # frames, slightly more than an hour of S2-Pro


@pytest.fixture(scope="module")
def codes(config: CodecConfig) -> Tensor:
    return random_codes(FRAMES, config)


@pytest.fixture(scope="module")
def audio(decoder: CodecDecoder, codes: Tensor) -> Tensor:
    return decoder.decode(codes)


@pytest.fixture(scope="module")
def clip(config: CodecConfig) -> Tensor:
    return noise(FRAMES, config)


@cache
def encoded(encoder: CodecEncoder, clip: Tensor) -> Tensor:
    return encoder.encode(clip)


def decode_in_chunks(
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


def encode_in_chunks(chunks: Iterable[int], encoder: CodecEncoder, audio: Tensor) -> Tensor:
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
def chunk_sizes(draw: st.DrawFn) -> list[int]:
    """Draw chunk sizes of at least 1 that add up to `FRAMES`."""
    at = sorted(draw(st.sets(st.integers(1, FRAMES - 1), max_size=FRAMES - 1)))
    return [b - a for a, b in zip([0, *at], [*at, FRAMES], strict=True)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 16, FRAMES - 1, FRAMES])
def test_decoder_in_equal_chunks_matches_offline(
    decoder: CodecDecoder, codes: Tensor, audio: Tensor, size: int
) -> None:
    pieces = decode_in_chunks(equal_chunks(size), decoder, codes)
    torch.testing.assert_close(pieces, audio, rtol=0, atol=1e-6)


@settings(max_examples=6, deadline=None)
@given(chunks=chunk_sizes())
def test_decoder_in_arbitrary_chunks_matches_offline(
    decoder: CodecDecoder, codes: Tensor, audio: Tensor, chunks: list[int]
) -> None:
    torch.testing.assert_close(decode_in_chunks(chunks, decoder, codes), audio, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 8, 16, FRAMES])
def test_encoder_in_equal_chunks_matches_offline(encoder: CodecEncoder, clip: Tensor, size: int) -> None:
    assert torch.equal(encode_in_chunks(equal_chunks(size), encoder, clip), encoded(encoder, clip))


@settings(max_examples=4, deadline=None)
@given(chunks=chunk_sizes())
def test_encoder_in_arbitrary_chunks_matches_offline(encoder: CodecEncoder, clip: Tensor, chunks: list[int]) -> None:
    assert torch.equal(encode_in_chunks(chunks, encoder, clip), encoded(encoder, clip))


@torch.inference_mode()
def test_encoder_latents_in_chunks_match_offline(encoder: CodecEncoder, config: CodecConfig) -> None:
    """Latents before quantization are compared because the codebooks could hide rounding errors."""
    clip, state = noise(FRAMES, config), encoder.init_state()
    pieces = []
    for piece in clip.split(3 * config.frame_length, dim=2):
        latents = encoder.encoder(piece, state.encoder)
        latents = encoder.quantizer.downsample(latents, state.quantizer.downsample)
        pieces.append(encoder.quantizer.pre_module(latents, state.quantizer.pre_module))
    offline = encoder.quantizer.pre_module(encoder.quantizer.downsample(encoder.encoder(clip)))
    torch.testing.assert_close(torch.cat(pieces, 2), offline, rtol=0, atol=2e-5)


@pytest.mark.parametrize("samples", [0, 1, 2047, 3000])
def test_encoder_step_rejects_partial_frames(encoder: CodecEncoder, config: CodecConfig, samples: int) -> None:
    with pytest.raises(ValueError, match="whole frames of 2048"):
        encoder.encode_step(noise(2, config)[..., :samples], encoder.init_state())


def test_batched_rows_equal_single_rows(decoder: CodecDecoder, config: CodecConfig) -> None:
    both = random_codes(12, config, batch=2)
    together = decode_in_chunks([5, 4, 3], decoder, both)
    for row in range(2):
        alone = decode_in_chunks([5, 4, 3], decoder, both[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-6)


def test_new_state_of_one_row_keeps_the_other(decoder: CodecDecoder, config: CodecConfig) -> None:
    both = random_codes(24, config, batch=2)
    state = decoder.init_state(2)
    decoder.decode_step(both[:, :, :12], state)
    state.put(torch.tensor([0]), decoder.init_state(1))
    after = decoder.decode_step(both[:, :, 12:], state)
    fresh = decoder.decode(both[:1, :, 12:])
    carried = decoder.decode(both[1:])[..., 12 * config.frame_length :]
    torch.testing.assert_close(after, torch.cat((fresh, carried)), rtol=0, atol=1e-6)


def test_taken_rows_are_independent(decoder: CodecDecoder, codes: Tensor) -> None:
    state = decoder.init_state()
    decoder.decode_step(codes[:, :, :10], state)
    twin = state.take(torch.tensor([0]))
    before = [buffer.clone() for buffer in twin.tensors()]
    first = decoder.decode_step(codes[:, :, 10:20], state)
    assert all(torch.equal(a, b) for a, b in zip(before, twin.tensors(), strict=True))
    assert torch.equal(decoder.decode_step(codes[:, :, 10:20], twin), first)


def test_state_size_and_buffers_stay_constant(decoder: CodecDecoder, config: CodecConfig) -> None:
    state = decoder.init_state()
    buffers = [(buffer.data_ptr(), buffer.shape) for buffer in state.tensors()]
    size = state.nbytes()
    for frames in (1, 40, 3, 100, 1):
        decoder.decode_step(random_codes(frames, config), state)
    assert [(buffer.data_ptr(), buffer.shape) for buffer in state.tensors()] == buffers
    assert state.nbytes() == size == sum(buffer.nbytes for buffer in state.tensors())


def transformer_states(state: StreamingState) -> Iterable[TransformerState]:
    if isinstance(state, TransformerState):
        yield state
    for value in vars(state).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, StreamingState):
                yield from transformer_states(part)


def aged_state(decoder: CodecDecoder, position: int) -> DecoderState:
    """Return a decoder state positioned as if `position` frames had been decoded."""
    state = decoder.init_state()
    found = list(transformer_states(state))
    assert found
    for transformer in found:
        transformer.position.fill_(position)
    return state


@pytest.mark.parametrize("position", [HOUR, 100 * HOUR, 10**12])
def test_chunked_decoding_is_exact_at_large_positions(decoder: CodecDecoder, codes: Tensor, position: int) -> None:
    at_once = decode_in_chunks([FRAMES], decoder, codes, aged_state(decoder, position))
    one_by_one = decode_in_chunks([1] * FRAMES, decoder, codes, aged_state(decoder, position))
    torch.testing.assert_close(one_by_one, at_once, rtol=0, atol=1e-6)


@pytest.mark.parametrize("position", [HOUR, 100 * HOUR])
def test_audio_at_large_positions_matches_audio_at_start(
    decoder: CodecDecoder, config: CodecConfig, position: int
) -> None:
    """Attention depends on relative positions, so earlier frames have no effect once the receptive field is full.

    Only the rounding of the rotary table, which is part of the model, may differ.
    """
    transformer = config.quantizer.transformer
    warm = transformer.n_layer * transformer.window_size + 8
    codes = random_codes(warm + 20, config)
    late = decode_in_chunks([warm, 7, 13], decoder, codes, aged_state(decoder, position))
    early = decoder.decode(codes)
    settled = slice(warm * config.frame_length, None)
    difference = (late - early)[..., settled].abs().max()
    assert difference < 1e-3 * early[..., settled].abs().max()


def test_state_moves_with_all_its_buffers(decoder: CodecDecoder) -> None:
    state = decoder.init_state(1)
    moved = state.to("meta")
    assert {buffer.device.type for buffer in moved.tensors()} == {"meta"}
    assert [buffer.shape for buffer in moved.tensors()] == [buffer.shape for buffer in state.tensors()]
    assert {buffer.device.type for buffer in state.tensors()} == {"cpu"}
