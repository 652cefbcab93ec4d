"""Frozen, strictly checked sizes of a codec.

Source: the codec of the Fish Audio S2-Pro release. That release ships no config for it, so
`CodecConfig.s2_pro()` holds its sizes; a folder of ours carries them as `codec_config.json`.
"""

import json
from dataclasses import dataclass, fields
from math import prod
from pathlib import Path
from typing import Any, Self, TypeVar

from engine.errors import InvalidConfig

# Fixed in the release's conv encoder and named by no file.
_ENCODER_HEAD_DIM = 64
_ENCODER_FEED_FORWARD = 3
_ENCODER_ROPE_BASE = 10_000.0
_ENCODER_NORM_EPS = 1e-5

_Section = TypeVar("_Section")


@dataclass(frozen=True, kw_only=True)
class WindowedTransformerConfig:
    """Sizes of a causal transformer that sees `window_size` positions, its own included.

    `final_norm` tells the release (an RMSNorm behind the last layer) from codecs trained without one.
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
        if self.n_head * self.head_dim != self.dim:
            raise InvalidConfig(
                f"The codec's transformer has {self.n_head} heads of {self.head_dim}, "
                f"which do not make its width {self.dim}."
            )
        if self.head_dim % 2:
            raise InvalidConfig(
                f"The codec's transformer has head_dim = {self.head_dim}; rotary pairs need an even one."
            )
        if self.rope_base <= 1 or self.norm_eps <= 0:
            raise InvalidConfig("The codec's transformer needs rope_base above 1 and norm_eps above 0.")


@dataclass(frozen=True, kw_only=True)
class QuantizerConfig:
    """Sizes of the quantizer. `n_codebooks` counts the residual codebooks, the semantic one comes on top."""

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
        if len(layers) != len(self.encoder_rates) or any(not _whole(n, at_least=0) for n in layers):
            raise InvalidConfig(
                f"The codec's encoder_transformer_layers = {list(layers)} must hold "
                "one number per block of the encoder."
            )
        if self.decoder_dim % 2 ** len(self.decoder_rates):
            raise InvalidConfig(f"The codec's decoder_dim = {self.decoder_dim} cannot be halved in each of its blocks.")
        if prod(self.encoder_rates) != prod(self.decoder_rates):
            raise InvalidConfig("The codec's encoder_rates and decoder_rates differ in their product.")
        if self.quantizer.input_dim != self.latent_dim:
            raise InvalidConfig(
                f"The codec's latents are {self.latent_dim} wide, its quantizer {self.quantizer.input_dim}."
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

    def encoder_transformer(self, block: int) -> WindowedTransformerConfig | None:
        """The transformer at the end of a block of the conv encoder; None where it has none."""
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
        """The sizes of the S2-Pro release."""
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
        """Read the layout of `codec_config.json`.

        Raises InvalidConfig for unknown or missing settings, naming them, and for sizes that contradict
        each other.
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
                raise InvalidConfig(f"The codec's {name} = {value!r}, but its rates make {right}.")
        return config

    @classmethod
    def from_json(cls, path: Path) -> Self:
        """Read `codec_config.json`. Raises InvalidConfig."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidConfig(f"The codec's config {path} cannot be read: {error}") from error
        if not isinstance(values, dict):
            raise InvalidConfig(f"The codec's config {path} is not a JSON object.")
        return cls.from_dict(values)


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name, {})
    if not isinstance(section, dict):
        raise InvalidConfig(f"The codec's {name} must be a section, not {section!r}.")
    return dict(section)


def _build(cls: type[_Section], section: str, values: dict[str, Any]) -> _Section:
    """`cls(**values)`, lists made tuples; unknown and missing settings are named."""
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # one of the dataclasses above
    if unknown := sorted(set(values) - known):
        raise InvalidConfig(f"The codec's {section} has settings that Reprise does not know: {', '.join(unknown)}.")
    if missing := sorted(known - {"final_norm"} - set(values)):
        raise InvalidConfig(f"The codec's {section} lacks {', '.join(missing)}.")
    return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _whole(value: object, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def _check_sizes(config: object, *names: str) -> None:
    for name in names:
        if not _whole(value := getattr(config, name), at_least=1):
            raise InvalidConfig(f"The codec's {name} = {value!r} must be a whole number above 0.")


def _check_rates(config: object, *names: str) -> None:
    for name in names:
        rates = getattr(config, name)
        if not isinstance(rates, tuple) or not rates or not all(_whole(rate, at_least=1) for rate in rates):
            raise InvalidConfig(f"The codec's {name} = {rates!r} must be a list of whole numbers above 0.")
