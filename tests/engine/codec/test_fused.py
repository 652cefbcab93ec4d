"""Fused convolutions against the plain layers, in Triton's interpreter on a CPU and compiled on a GPU."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec import fused
from engine.codec.codec import CodecDecoder
from engine.codec.config import CodecConfig, QuantizerConfig, WindowedTransformerConfig
from engine.codec.convolutions import CausalConv1d, CausalConvTranspose1d, ResidualUnit
from engine.codec.fused import FusedConvolutions, use_fused_convolutions
from engine.codec.streaming import StreamingSequential
from engine.codec.views import DecoderView
from engine.families.qwen3_tts.codec import SnakeBeta, SpeechDecoder
from engine.families.qwen3_tts.release import Qwen3TTSRelease
from tests.engine.models.triton_interpreter import DEVICE, quick_interpreter
from tests.paths import QWEN

pytest.importorskip("triton", reason="Triton comes with torch on Linux only")

from engine.codec import kernels
from engine.codec.kernels import SnakeFactors, convolve, convolve_transposed, extend

pytestmark = [pytest.mark.gpu] if DEVICE == "cuda" else []

# Batch, channels, outputs, steps, dilation, taps; and a tile, or None for the usual one, which channels and outputs may
# not fill.
SIZES: list[tuple[Any, ...]] = [(2, 40, 1, 9, 1, 7, None), (2, 16, 8, 5, 1, 1, None)]
# The interpreter, which is slow, runs a tile that outputs fill, and one of several.
SIZES += [(1, 32, 128, 130, 9, 7, tile) for tile in (kernels._TILES if DEVICE == "cuda" else kernels._TILES[:3:2])]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with quick_interpreter():
        yield


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def snake(channels: int, seed: int) -> SnakeFactors:
    return SnakeFactors(random(channels, seed=seed).abs() + 0.5, random(channels, seed=seed + 1).abs())


def activated(x: Tensor, snake: SnakeFactors) -> Tensor:
    """x `[B, C, T]` in fp64."""
    frequency, amplitude = (each.double()[:, None] for each in snake)
    wide = x.double()
    return wide + amplitude * torch.sin(frequency * wide) ** 2


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Compare with results in fp64: as near as fp32 is, and nearer than TF32 could be."""
    assert found.shape == expected.shape
    assert (found.double() - expected).norm() <= 2e-6 * expected.norm()


@pytest.mark.parametrize(("batch", "channels", "outputs", "steps", "dilation", "taps", "tile"), SIZES)
def test_convolution_equals_that_in_fp64(
    batch: int,
    channels: int,
    outputs: int,
    steps: int,
    dilation: int,
    taps: int,
    tile: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the activations around it, and the past inputs and a residual connection of any strides."""
    if tile is not None:
        monkeypatch.setattr(kernels, "_TILES", [tile])
    reach = (taps - 1) * dilation
    past, x, residual = random(batch, channels, reach), random(batch, channels, steps), random(batch, steps, outputs)
    weight, bias = random(outputs, channels, taps) / (channels * taps) ** 0.5, random(outputs, seed=1)
    before, after = snake(channels, 2), snake(outputs, 4)
    whole = torch.cat((past.double(), activated(x, before)), dim=2)
    expected = activated(F.conv1d(whole, weight.double(), bias.double(), dilation=dilation), after)
    joined, kept = extend(past.transpose(1, 2).contiguous().transpose(1, 2), x, before)
    found = convolve(
        joined, weight.permute(2, 0, 1).contiguous(), bias, dilation=dilation, snake=after, residual=residual
    )
    assert_close(joined.transpose(1, 2), whole)
    assert_close(kept.transpose(1, 2), whole[:, :, steps:])
    assert_close(found.transpose(1, 2), expected + residual.transpose(1, 2).double())


@pytest.mark.parametrize(("batch", "inputs", "outputs", "steps", "stride"), [(3, 64, 32, 5, 4), (2, 40, 6, 1, 8)])
def test_transposed_convolution_equals_that_in_fp64(
    batch: int, inputs: int, outputs: int, steps: int, stride: int
) -> None:
    x, overlap = random(batch, inputs, steps), random(batch, outputs, stride, seed=1)
    weight, bias = random(inputs, outputs, 2 * stride) / (2 * inputs) ** 0.5, random(outputs, seed=2)
    taps = weight.permute(2, 1, 0).contiguous().view(2, -1, inputs)
    expected = F.conv_transpose1d(x.double(), weight.double(), bias.double(), stride=stride)
    expected[..., :stride] += overlap
    found, kept = convolve_transposed(x.transpose(1, 2).contiguous(), taps, bias, overlap)
    assert_close(found.transpose(1, 2), expected[..., : steps * stride])
    assert_close(kept.transpose(1, 2), expected[..., steps * stride :] - bias.double()[:, None])


@pytest.fixture
def decoder() -> CodecDecoder:
    """A decoder with random weights, one block and few samples a frame: the interpreter is slow."""
    transformer = WindowedTransformerConfig(
        n_layer=1, n_head=1, head_dim=16, dim=16, intermediate_size=32, window_size=4, rope_base=1e4, norm_eps=1e-5
    )
    quantizer = QuantizerConfig(
        input_dim=16,
        n_codebooks=2,
        codebook_size=8,
        codebook_dim=4,
        semantic_codebook_size=8,
        downsample_factor=(2,),
        transformer=transformer,
    )
    config = CodecConfig(
        sample_rate=16_000,
        encoder_dim=4,
        encoder_rates=(4,),
        latent_dim=16,
        decoder_dim=48,
        decoder_rates=(4,),
        encoder_transformer_layers=(0,),
        encoder_transformer_window=4,
        quantizer=quantizer,
    )
    return _drawn(CodecDecoder(config))


@pytest.fixture(scope="module")
def speech_decoder() -> SpeechDecoder:
    return Qwen3TTSRelease(QWEN).load_decoder(torch.device(DEVICE))


def _drawn(decoder: CodecDecoder) -> CodecDecoder:
    chance = torch.Generator().manual_seed(0)
    for parameter in decoder.parameters():
        deviation = 1.0 if parameter.dim() < 2 else parameter[0].numel() ** -0.5
        parameter.data = torch.randn(parameter.shape, generator=chance) * deviation
    return decoder.to(DEVICE).requires_grad_(False).eval()


def decode(decoder: DecoderView, lengths: Sequence[int]) -> list[Tensor]:
    """Decode random codes of two streams in chunks. Returns the audio and the state after it."""
    state, sizes = decoder.init_state(2), decoder.config.codebook_sizes
    chance = torch.Generator().manual_seed(1)
    codes = torch.stack([torch.randint(n, (2, sum(lengths)), generator=chance) for n in sizes], dim=1).to(DEVICE)
    audio = torch.cat([decoder.decode_step(part, state) for part in codes.split(list(lengths), dim=2)], dim=2)
    return [audio, *state.tensors()]


def convolutions(decoder: nn.Module) -> list[CausalConv1d | CausalConvTranspose1d | ResidualUnit]:
    kinds = CausalConv1d, CausalConvTranspose1d, ResidualUnit
    return [layer for layer in decoder.modules() if isinstance(layer, kinds)]


def assert_same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert (one - other).double().norm() <= 2e-5 * other.double().norm()


@pytest.fixture
def one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check one size, and let the interpreter, which is slow, run few programs."""
    monkeypatch.setattr(fused, "_CHECKED", [(1, 1)])
    if DEVICE == "cpu":
        monkeypatch.setattr(kernels, "_TILES", [kernels._TILES[-1]._replace(positions=1024, outputs=64)])
        monkeypatch.setattr(kernels, "_POSITIONS", 1024)


def test_decoder_streams_as_with_plain_layers_which_run_as_asked(decoder: CodecDecoder, one_check: None) -> None:
    """On a GPU, plain layers run in limited memory, and fused ones do not: an error of the plain ones may be one of
    memory, so they stay."""
    runs = list[list[bool]]()

    def run(plain: Callable[[], list[Tensor]]) -> list[Tensor]:
        runs.append([layer.backend is not None for layer in convolutions(decoder)])
        return plain()

    plain = decode(decoder, (1, 2))
    assert use_fused_convolutions(decoder, run) is None
    assert [any(used) for used in runs] == [False]
    assert_same(decode(decoder, (1, 2)), plain)
    used = [layer.backend is not None for layer in convolutions(decoder.decoder)]
    assert used == [True] * len(used)
    with torch.inference_mode():  # without a state, layers stay plain
        codes = torch.zeros(1, 3, 2, dtype=torch.long, device=DEVICE)
        assert_same([decoder.decode(codes)], [decoder.decode_step(codes, decoder.init_state())])


def test_speech_tokenizer_of_qwen3_streams_as_with_plain_layers(speech_decoder: SpeechDecoder, one_check: None) -> None:
    """The check compares its audio and states."""
    assert use_fused_convolutions(speech_decoder) is None
    assert all(layer.backend for layer in convolutions(speech_decoder.decoder))


def test_activation_of_its_own_equals_the_plain_one() -> None:
    layer, x = SnakeBeta(24).to(DEVICE), random(2, 24, 10)
    expected = layer(x)
    layer.backend = FusedConvolutions()
    assert_same([layer(x, layer.init_state(2))], [expected])


@pytest.mark.parametrize("damage", ["differs", "raises"])
def test_decoder_keeps_its_plain_layers_if_kernels_differ_or_fail(
    decoder: CodecDecoder, damage: str, one_check: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(x: Tensor, *given: Any, **options: Any) -> Tensor:
        if damage == "raises":
            raise RuntimeError("no kernel image is available")
        return convolve(x, *given, **options) * 1.001

    plain, weights = decode(decoder, (1, 1)), [weight.clone() for weight in decoder.parameters()]
    monkeypatch.setattr(kernels, "convolve", other)
    why = use_fused_convolutions(decoder)
    assert why is not None
    assert why.startswith("convolution kernels: ")
    assert ("no kernel image" if damage == "raises" else "differ") in why
    assert all(layer.backend is None for layer in convolutions(decoder))
    assert all(weight.is_contiguous() for weight in decoder.parameters())
    assert_same(list(decoder.parameters()), weights)
    assert_same(decode(decoder, (1, 1)), plain)


@pytest.mark.skipif(DEVICE == "cuda", reason="as if there were an older GPU")
def test_gpus_without_tf32_keep_their_plain_layers(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    for capability, expected in (((7, 5), False), ((8, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, found=capability: found)
        assert fused._multiplies_tf32(torch.device("cuda")) is expected
    monkeypatch.setattr(fused, "_multiplies_tf32", lambda _: False)
    assert use_fused_convolutions(decoder) == "convolution kernels: they are for NVIDIA's GPUs from Ampere on"
    assert all(layer.backend is None for layer in convolutions(decoder))


def test_layers_that_no_kernel_runs_stay_plain() -> None:
    """Strides, groups, and kernels of another length than twice the stride."""
    layers = StreamingSequential(
        CausalConv1d(4, 4, 4, stride=2),
        CausalConv1d(4, 4, 7, groups=4),
        CausalConvTranspose1d(4, 4, 2, stride=2),
        CausalConvTranspose1d(4, 4, 6, stride=2),
    )
    fused.set_backend(layers, FusedConvolutions())
    assert [layer.backend for layer in convolutions(layers)] == [None] * 4
