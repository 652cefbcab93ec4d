"""Frozen, strictly validated sizes of a codec.

Source: the codec of the Fish Audio S2-Pro release. That release has no config for it, so
`CodecConfig.s2_pro()` holds its sizes; other release folders have them in `codec_config.json`.
"""

from dataclasses import dataclass, fields
from math import prod
from pathlib import Path
from typing import Any, Self, TypeVar

from engine.checks import MAX_CODEBOOKS, check_flag, check_int, check_number, listed, shown
from engine.errors import InvalidConfig
from engine.files.bounded import read_object

# Constants of the release's conv encoder that are in no file.
_ENCODER_HEAD_DIM = 64
_ENCODER_FEED_FORWARD = 3
_ENCODER_ROPE_BASE = 10_000.0
_ENCODER_NORM_EPS = 1e-5

# Maximum sizes of a codec, several times S2-Pro's, so that a damaged file is refused before anything is allocated.
_LIMITS = {
    "n_layer": 64,
    "n_head": 256,
    "head_dim": 1024,
    "dim": 1 << 14,
    "intermediate_size": 1 << 16,
    "window_size": 4096,
    "input_dim": 1 << 14,
    "n_codebooks": MAX_CODEBOOKS - 1,
    "codebook_size": 1 << 16,
    "codebook_dim": 4096,
    "semantic_codebook_size": 1 << 16,
    "sample_rate": 192_000,
    "encoder_dim": 4096,
    "latent_dim": 1 << 14,
    "decoder_dim": 1 << 14,
    "encoder_transformer_window": 4096,
}
_MAX_BLOCKS, _MAX_STRIDE = 8, 64
_LONGEST_FRAME = 1 << 17  # samples
_WHERE = "The codec's config"

_Section = TypeVar("_Section")


@dataclass(frozen=True, kw_only=True)
class WindowedTransformerConfig:
    """Sizes of a causal transformer. Each position attends to `window_size` positions, itself included.

    `final_norm`: whether an RMSNorm follows the last layer, as in the release; some codecs were trained without it.
    """

    n_layer: int
    n_head: int
    head_dim: int
    dim: int
    intermediate_size: int
    window_size: int
    rope_base: float
    norm_eps: float
    final_norm: bool = True

    def __post_init__(self) -> None:
        _check_sizes(self, "n_layer", "n_head", "head_dim", "dim", "intermediate_size", "window_size")
        check_number(_WHERE, "rope_base", self.rope_base, 1, 1e12)
        check_number(_WHERE, "norm_eps", self.norm_eps, 0, 1)
        check_flag(_WHERE, "final_norm", self.final_norm)
        if self.n_head * self.head_dim != self.dim:
            raise InvalidConfig(
                f"The codec's transformer has {self.n_head} heads of {self.head_dim}, "
                f"which do not make its width {self.dim}."
            )
        if self.head_dim % 2:
            raise InvalidConfig(
                f"The codec's transformer has head_dim = {self.head_dim}; rotary pairs need an even one."
            )


@dataclass(frozen=True, kw_only=True)
class QuantizerConfig:
    """Sizes of the quantizer. `n_codebooks` counts the residual codebooks, without the semantic one."""

    input_dim: int
    n_codebooks: int
    codebook_size: int
    codebook_dim: int
    semantic_codebook_size: int
    downsample_factor: tuple[int, ...]
    transformer: WindowedTransformerConfig

    def __post_init__(self) -> None:
        _check_sizes(self, "input_dim", "n_codebooks", "codebook_size", "codebook_dim", "semantic_codebook_size")
        _check_rates(self, "downsample_factor")
        if self.transformer.dim != self.input_dim:
            raise InvalidConfig(
                f"The codec's quantizer is {self.input_dim} wide and its transformer {self.transformer.dim}."
            )


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    """Sizes of a whole codec. Rates are strides, `sample_rate` is in Hz, windows in positions."""

    sample_rate: int
    encoder_dim: int
    encoder_rates: tuple[int, ...]
    latent_dim: int
    decoder_dim: int
    decoder_rates: tuple[int, ...]
    encoder_transformer_layers: tuple[int, ...]
    encoder_transformer_window: int
    quantizer: QuantizerConfig

    def __post_init__(self) -> None:
        _check_sizes(self, "sample_rate", "encoder_dim", "latent_dim", "decoder_dim", "encoder_transformer_window")
        _check_rates(self, "encoder_rates", "decoder_rates")
        layers = self.encoder_transformer_layers
        most = _LIMITS["n_layer"]
        if not _are_whole(layers, 0, most) or len(layers) != len(self.encoder_rates):
            raise InvalidConfig(
                f"The codec's encoder_transformer_layers = {shown(layers)} must hold "
                f"one number per block of the encoder, each 0 to {most}."
            )
        if self.decoder_dim % 2 ** len(self.decoder_rates):
            raise InvalidConfig(f"The codec's decoder_dim = {self.decoder_dim} cannot be halved in each of its blocks.")
        if prod(self.encoder_rates) != prod(self.decoder_rates):
            raise InvalidConfig("The codec's encoder_rates and decoder_rates differ in their product.")
        if self.quantizer.input_dim != self.latent_dim:
            raise InvalidConfig(
                f"The codec's latents are {self.latent_dim} wide, its quantizer {self.quantizer.input_dim}."
            )
        if self.frame_length > _LONGEST_FRAME:
            raise InvalidConfig(
                f"The codec's rates make frames of {self.frame_length} samples; {_LONGEST_FRAME} are the most."
            )
        for block in range(len(self.encoder_rates)):
            self.encoder_transformer(block)

    @property
    def hop_length(self) -> int:
        """Samples per latent of the conv encoder."""
        return prod(self.encoder_rates)

    @property
    def frame_length(self) -> int:
        """Samples per frame of codes."""
        return self.hop_length * prod(self.quantizer.downsample_factor)

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.frame_length

    @property
    def num_codebooks(self) -> int:
        """K, the semantic codebook included."""
        return self.quantizer.n_codebooks + 1

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        """Entries of each of the K codebooks, the semantic one first."""
        residual = [self.quantizer.codebook_size] * self.quantizer.n_codebooks
        return (self.quantizer.semantic_codebook_size, *residual)

    @property
    def encoder_activation_size(self) -> int:
        """Values per frame of the conv encoder's largest activation."""
        rates = self.encoder_rates
        return max((self.encoder_dim << i) * self.frame_length // prod(rates[:i]) for i in range(len(rates)))

    @property
    def decoder_activation_size(self) -> int:
        """Values per frame of the conv decoder's largest activation."""
        rates, latents = self.decoder_rates, self.frame_length // self.hop_length
        return max((self.decoder_dim >> i + 1) * latents * prod(rates[: i + 1]) for i in range(len(rates)))

    def encoder_transformer(self, block: int) -> WindowedTransformerConfig | None:
        """Return the sizes of the transformer at the end of a block of the conv encoder; None if it has none."""
        if not self.encoder_transformer_layers[block]:
            return None
        dim = self.encoder_dim * 2 ** (block + 1)
        return WindowedTransformerConfig(
            n_layer=self.encoder_transformer_layers[block],
            n_head=dim // _ENCODER_HEAD_DIM,
            head_dim=_ENCODER_HEAD_DIM,
            dim=dim,
            intermediate_size=dim * _ENCODER_FEED_FORWARD,
            window_size=self.encoder_transformer_window,
            rope_base=_ENCODER_ROPE_BASE,
            norm_eps=_ENCODER_NORM_EPS,
        )

    @classmethod
    def s2_pro(cls) -> Self:
        """Return the sizes of the S2-Pro release."""
        transformer = WindowedTransformerConfig(
            n_layer=8,
            n_head=16,
            head_dim=64,
            dim=1024,
            intermediate_size=3072,
            window_size=128,
            rope_base=10_000.0,
            norm_eps=1e-5,
        )
        quantizer = QuantizerConfig(
            input_dim=1024,
            n_codebooks=9,
            codebook_size=1024,
            codebook_dim=8,
            semantic_codebook_size=4096,
            downsample_factor=(2, 2),
            transformer=transformer,
        )
        return cls(
            sample_rate=44_100,
            encoder_dim=64,
            encoder_rates=(2, 4, 8, 8),
            latent_dim=1024,
            decoder_dim=1536,
            decoder_rates=(8, 8, 4, 2),
            encoder_transformer_layers=(0, 0, 0, 4),
            encoder_transformer_window=512,
            quantizer=quantizer,
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Create from the contents of `codec_config.json`.

        Raises InvalidConfig for unknown or missing settings, naming them, and for contradictory sizes.
        """
        values = dict(values)
        derived = {name: values.pop(name) for name in ("hop_length", "frame_length") if name in values}
        quantizer = _section(values, "quantizer")
        if "transformer" in quantizer:
            quantizer["transformer"] = _build(
                WindowedTransformerConfig, "quantizer.transformer", _section(quantizer, "transformer")
            )
        if "quantizer" in values:
            values["quantizer"] = _build(QuantizerConfig, "quantizer", quantizer)
        config = _build(cls, "config", values)
        for name, value in derived.items():
            if value != getattr(config, name):
                right = getattr(config, name)
                raise InvalidConfig(f"The codec's {name} = {shown(value)}, but its rates make {right}.")
        return config

    @classmethod
    def from_json(cls, path: Path) -> Self:
        """Read `codec_config.json`. Raises InvalidConfig; ReleaseIncomplete if there is no file."""
        return cls.from_dict(read_object(path))


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name, {})
    if not isinstance(section, dict):
        raise InvalidConfig(f"The codec's {name} must be a section, not {shown(section)}.")
    return dict(section)


def _build(cls: type[_Section], section: str, values: dict[str, Any]) -> _Section:
    """Build `cls(**values)` with lists as tuples. Raises InvalidConfig, naming unknown and missing settings."""
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # one of the dataclasses above
    if unknown := sorted(set(values) - known):
        raise InvalidConfig(f"The codec's {section} has settings that Reprise does not know: {listed(unknown)}.")
    if missing := sorted(known - {"final_norm"} - set(values)):
        raise InvalidConfig(f"The codec's {section} lacks {', '.join(missing)}.")
    return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _are_whole(values: object, low: int, high: int) -> bool:
    if not isinstance(values, tuple) or not 1 <= len(values) <= _MAX_BLOCKS:
        return False
    return all(type(value) is int and low <= value <= high for value in values)


def _check_sizes(config: object, *names: str) -> None:
    for name in names:
        check_int(_WHERE, name, getattr(config, name), 1, _LIMITS[name])


def _check_rates(config: object, *names: str) -> None:
    for name in names:
        rates = getattr(config, name)
        if not _are_whole(rates, 1, _MAX_STRIDE):
            raise InvalidConfig(
                f"The codec's {name} = {shown(rates)} must be a list of 1 to {_MAX_BLOCKS} whole numbers, "
                f"each 1 to {_MAX_STRIDE}."
            )
