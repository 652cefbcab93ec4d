"""Parsing of `speech_tokenizer/config.json` of a Qwen3-TTS release: the sizes of its 12 Hz codec."""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from engine.checks import MAX_CODEBOOKS, check_int, check_number, shown
from engine.errors import InvalidConfig
from engine.families.qwen3_tts.sections import Section
from engine.files.bounded import read_object

# The encoder attends to the whole clip, which is 30 s at most. Its state holds this many positions.
ENCODER_WINDOW = 1024
_WIDEST, _LONGEST_FRAME = 1 << 14, 1 << 17

# Supported values of settings; the first is the default.
_ENCODER_SETTINGS: dict[str, list[object]] = {
    "audio_channels": [1],
    "kernel_size": [7],
    "last_kernel_size": [3],
    "residual_kernel_size": [3],
    "num_residual_layers": [1],
    "dilation_growth_rate": [2],
    "compress": [2],
    "use_causal_conv": [True],
    "use_conv_shortcut": [False],
    "pad_mode": ["constant"],
    "hidden_act": ["gelu"],
    "attention_bias": [False],
    "attention_dropout": [0],
    "num_semantic_quantizers": [1],
    "trim_right_ratio": [1],
    "use_streaming": [False],
    "_frame_rate": [12.5, None],
    "frame_rate": [12.5, None],
}
_DECODER_SETTINGS: dict[str, list[object]] = {
    "hidden_act": ["silu"],
    "attention_bias": [False],
    "attention_dropout": [0],
    "num_semantic_quantizers": [1],
}
# Settings without effect. The release's own program uses `codebook_size` for the semantic codebook, too.
_UNUSED = ("max_position_embeddings", "layer_scale_initial_scale")
_UNUSED_BY_ENCODER = (*_UNUSED, "sliding_window", "upsample_groups")
_UNUSED_BY_DECODER = (*_UNUSED, "semantic_codebook_size", "vector_quantization_hidden_dimension")


@dataclass(frozen=True)
class CodecTransformerConfig:
    """Sizes of a causal transformer. Each position attends to `window_size` positions, itself included.

    final_norm: whether an RMSNorm follows the last layer.
    """

    dim: int
    n_layer: int
    n_head: int
    head_dim: int
    intermediate_size: int
    window_size: int
    rope_base: float
    norm_eps: float
    final_norm: bool


@dataclass(frozen=True)
class SpeechTokenizerConfig:
    """Sizes of the whole codec. Rates are strides in signal order; `sample_rate` is in Hz.

    filters: channels of the first encoder convolution, doubled at each rate. codebook_dim: width of an entry.
    encoder_dim, decoder_quantizer_dim: width of the latents on each side. stored_quantizers: codebooks in the file; the
    encoder uses the first `num_codebooks`.
    """

    sample_rate: int
    num_codebooks: int
    codebook_size: int
    codebook_dim: int
    filters: int
    encoder_rates: tuple[int, ...]
    encoder_dim: int
    stored_quantizers: int
    encoder_transformer: CodecTransformerConfig
    decoder_quantizer_dim: int
    latent_dim: int
    decoder_transformer: CodecTransformerConfig
    upsample_factors: tuple[int, ...]
    decoder_dim: int
    decoder_rates: tuple[int, ...]

    def __post_init__(self) -> None:
        if prod(self.encoder_rates) * 2 != self.frame_length:
            raise InvalidConfig("The speech tokenizer's encoder and decoder differ in the length of a frame.")
        if self.frame_length > _LONGEST_FRAME or self.decoder_dim % 2 ** len(self.decoder_rates):
            raise InvalidConfig("The speech tokenizer's decoder has rates or a width that cannot be.")

    @property
    def frame_length(self) -> int:
        """Samples per frame."""
        return prod(self.upsample_factors) * prod(self.decoder_rates)

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.frame_length

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        return (self.codebook_size,) * self.num_codebooks

    @property
    def encoder_activation_size(self) -> int:
        rates = self.encoder_rates
        return max((self.filters << i) * self.frame_length // prod(rates[:i]) for i in range(len(rates)))

    @property
    def decoder_activation_size(self) -> int:
        rates, latents = self.decoder_rates, prod(self.upsample_factors)
        return max((self.decoder_dim >> i + 1) * latents * prod(rates[: i + 1]) for i in range(len(rates)))


def read_codec_config(folder: Path) -> SpeechTokenizerConfig:
    """Read the sizes of the codec in a release folder. Raises InvalidConfig; ReleaseIncomplete if there is no file."""
    root = Section("speech tokenizer's config", read_object(folder / "speech_tokenizer" / "config.json"))
    if (kind := root.take("model_type", None)) != "qwen3_tts_tokenizer_12hz":
        raise InvalidConfig(f"The speech tokenizer is of type {shown(kind)}; Reprise reads qwen3_tts_tokenizer_12hz.")
    encoder, decoder = root.section("encoder_config"), root.section("decoder_config")
    rate = _whole(root, "input_sample_rate", 192_000)
    codebooks = _whole(root, "encoder_valid_num_quantizers", MAX_CODEBOOKS)
    size, entry = _whole(encoder, "codebook_size", 1 << 16), _whole(encoder, "codebook_dim", 4096)
    quantizer_dim = _whole(decoder, "codebook_dim", _WIDEST)
    root.expect(output_sample_rate=[rate])
    encoder.expect(**_ENCODER_SETTINGS, sampling_rate=[rate], vector_quantization_hidden_dimension=[entry])
    decoder.expect(**_DECODER_SETTINGS, codebook_size=[size], num_quantizers=[codebooks])
    stored = _whole(encoder, "num_quantizers", MAX_CODEBOOKS)
    if not 2 <= codebooks <= stored or quantizer_dim != 2 * entry:
        raise InvalidConfig("The speech tokenizer's encoder and decoder differ in their codebooks.")
    config = SpeechTokenizerConfig(
        sample_rate=rate,
        num_codebooks=codebooks,
        codebook_size=size,
        codebook_dim=entry,
        filters=_whole(encoder, "num_filters", 4096),
        encoder_rates=tuple(reversed(_rates(encoder, "upsampling_ratios"))),
        encoder_dim=(encoder_dim := _whole(encoder, "hidden_size", _WIDEST)),
        stored_quantizers=stored,
        encoder_transformer=_transformer(encoder, encoder_dim, ENCODER_WINDOW, "norm_eps", final_norm=False),
        decoder_quantizer_dim=quantizer_dim,
        latent_dim=_whole(decoder, "latent_dim", _WIDEST),
        decoder_transformer=_transformer(
            decoder,
            _whole(decoder, "hidden_size", _WIDEST),
            _whole(decoder, "sliding_window", 4096),
            "rms_norm_eps",
            final_norm=True,
        ),
        upsample_factors=_rates(decoder, "upsampling_ratios"),
        decoder_dim=_whole(decoder, "decoder_dim", _WIDEST),
        decoder_rates=_rates(decoder, "upsample_rates"),
    )
    root.expect(decode_upsample_rate=[config.frame_length], encode_downsample_rate=[config.frame_length])
    encoder.end(_UNUSED_BY_ENCODER)
    decoder.end(_UNUSED_BY_DECODER)
    root.end()
    return config


def _whole(section: Section, name: str, most: int) -> int:
    found = section.take(name)
    check_int(f"The {section.where}", name, found, 1, most)
    return int(found)


def _rates(section: Section, name: str) -> tuple[int, ...]:
    found = section.take(name)
    if not isinstance(found, list) or not 1 <= len(found) <= 8:
        raise InvalidConfig(f"The {section.where} has {name} = {shown(found)}; it must list 1 to 8 rates.")
    for rate in found:
        check_int(f"The {section.where}", name, rate, 1, 64)
    return tuple(found)


def _transformer(section: Section, dim: int, window: int, eps: str, *, final_norm: bool) -> CodecTransformerConfig:
    heads = _whole(section, "num_attention_heads", 256)
    section.expect(num_key_value_heads=[heads])
    head_dim = section.take("head_dim", dim // heads)
    check_int(f"The {section.where}", "head_dim", head_dim, 2, 1024)
    base, norm_eps = section.take("rope_theta"), section.take(eps)
    check_number(f"The {section.where}", "rope_theta", base, 1, 1e12)
    check_number(f"The {section.where}", eps, norm_eps, 0, 1)
    if head_dim % 2:
        raise InvalidConfig(f"The {section.where} has head_dim = {head_dim}; rotary pairs need an even one.")
    layers, width = _whole(section, "num_hidden_layers", 64), _whole(section, "intermediate_size", 1 << 16)
    return CodecTransformerConfig(dim, layers, heads, head_dim, width, window, base, norm_eps, final_norm)
