"""Frozen, strictly checked sizes of the two transformers of an S2-like release.

Source: `config.json` of the Fish Audio S2-Pro (`fish_qwen3_omni`) and S1-mini (`dual_ar`) releases.
"""

from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidConfig

# The least and most that a model may have of everything: room for several times S2-Pro's, and a damaged file is refused
# by them before anything is made in its sizes.
_LIMITS = {
    "vocab_size": (1, 1 << 20),
    "n_layer": (1, 256),
    "n_head": (1, 256),
    "n_local_heads": (1, 256),
    "head_dim": (2, 1024),
    "dim": (1, 1 << 16),
    "intermediate_size": (1, 1 << 18),
    "max_seq_len": (1, 1 << 20),
}
_WIDEST = 16  # heads together, over the width
_LARGEST_TABLE = 1 << 23  # positions times head_dim, of the rotary table
MAX_VOCABULARY = _LIMITS["vocab_size"][1]
MAX_CODEBOOKS = 64


def check_whole(where: str, name: str, value: object, low: int, high: int) -> None:
    """Raises InvalidConfig, naming the setting, unless `value` is a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be a whole number from {low:,} to {high:,}.")


def check_number(where: str, name: str, value: object, above: float, most: float) -> None:
    """Raises InvalidConfig, naming the setting, unless `value` is a number above `above` and at most `most`."""
    if type(value) not in (int, float) or not above < value <= most:  # type: ignore[operator]
        raise InvalidConfig(
            f"{where} has {name} = {shown(value)}; it must be a number above {above:g} and at most {most:g}."
        )


def check_flag(where: str, name: str, value: object) -> None:
    """Raises InvalidConfig, naming the setting, unless `value` is true or false."""
    if type(value) is not bool:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be true or false.")


def check_text(where: str, name: str, value: object, most: int) -> None:
    """Raises InvalidConfig, naming the setting, unless `value` is text of at most `most` characters."""
    if type(value) is not str or len(value) > most:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be text of at most {most:,} characters.")


def shown(value: object) -> str:
    """A value of a file, short enough for a sentence."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes of one decoder-only transformer. Widths in channels, `max_seq_len` in positions."""

    vocab_size: int
    n_layer: int
    n_head: int
    n_local_heads: int
    head_dim: int
    dim: int
    intermediate_size: int
    max_seq_len: int
    rope_base: float = 1e6
    norm_eps: float = 1e-6
    tie_word_embeddings: bool = True
    attention_qkv_bias: bool = False
    attention_o_bias: bool = False
    attention_qk_norm: bool = False

    def __post_init__(self) -> None:
        for name, (low, high) in _LIMITS.items():
            check_whole("The model's config", name, getattr(self, name), low, high)
        check_number("The model's config", "rope_base", self.rope_base, 1, 1e12)
        check_number("The model's config", "norm_eps", self.norm_eps, 0, 1)
        for name in ("tie_word_embeddings", "attention_qkv_bias", "attention_o_bias", "attention_qk_norm"):
            check_flag("The model's config", name, getattr(self, name))
        if self.n_head * self.head_dim > _WIDEST * self.dim or self.max_seq_len * self.head_dim > _LARGEST_TABLE:
            raise InvalidConfig(
                f"The model's config has {self.n_head} heads of {self.head_dim} and {self.max_seq_len} positions; "
                f"a model that is {self.dim} wide cannot have as much."
            )
        if self.n_head % self.n_local_heads:
            raise InvalidConfig(
                f"The model's config has {self.n_head} heads over {self.n_local_heads} key/value heads; "
                "the first must be a multiple of the second."
            )
        if self.head_dim % 2:
            raise InvalidConfig(f"The model's config has head_dim = {self.head_dim}; rotary pairs need an even one.")


@dataclass(frozen=True, kw_only=True)
class DualARConfig:
    """A Slow AR over time and a Fast AR over codebooks.

    `num_codebooks` is K, the semantic codebook included; `semantic_codebook_size` is the number of semantic tokens.
    `normed_fast_input` and `scaled_codebook_embeddings` tell S2 (true) from S1-mini (false).
    """

    slow: TransformerConfig
    fast: TransformerConfig
    num_codebooks: int
    semantic_start_id: int
    semantic_end_id: int
    normed_fast_input: bool
    scaled_codebook_embeddings: bool

    def __post_init__(self) -> None:
        check_whole("The model's config", "num_codebooks", self.num_codebooks, 2, MAX_CODEBOOKS)
        for name in ("semantic_start_id", "semantic_end_id"):
            check_whole("The model's config", name, getattr(self, name), 0, MAX_VOCABULARY)
        for name in ("normed_fast_input", "scaled_codebook_embeddings"):
            check_flag("The model's config", name, getattr(self, name))
        if self.fast.max_seq_len < self.num_codebooks:
            raise InvalidConfig(
                f"The Fast AR has {self.fast.max_seq_len} positions for {self.num_codebooks} codebooks; each needs one."
            )
        if not 0 <= self.semantic_start_id < self.semantic_end_id < self.slow.vocab_size:
            raise InvalidConfig(
                f"The semantic tokens {self.semantic_start_id} to {self.semantic_end_id} do not fit "
                f"a vocabulary of {self.slow.vocab_size}."
            )
        if self.semantic_codebook_size > self.fast.vocab_size:
            raise InvalidConfig(
                f"There are {self.semantic_codebook_size} semantic tokens but the Fast AR knows {self.fast.vocab_size}."
            )

    @property
    def semantic_codebook_size(self) -> int:
        return self.semantic_end_id - self.semantic_start_id + 1


# What other programs keep in the same files. It has no say in how the model computes.
_NOT_OURS = frozenset(
    """model_type architectures dtype torch_dtype transformers_version dropout initializer_range
    use_gradient_checkpointing is_reward_model use_cache eos_token_id bos_token_id pad_token_id
    audio_pad_token_id text_dim auto_map _name_or_path""".split()
)
_SIZES = frozenset(TransformerConfig.__dataclass_fields__)


def _strict(section: str, values: dict[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(set(values) - known - _NOT_OURS)
    if unknown:
        named = shown(", ".join(unknown)).strip("'\"")
        raise InvalidConfig(f"The model's {section} has settings that Reprise does not know: {named}.")


def _transformer(section: str, values: dict[str, Any]) -> TransformerConfig:
    try:
        return TransformerConfig(**{k: v for k, v in values.items() if k in _SIZES})
    except TypeError as error:
        missing = sorted(
            name
            for name, field in TransformerConfig.__dataclass_fields__.items()
            if name not in values and field.default is field.default_factory  # both are MISSING when required
        )
        raise InvalidConfig(f"The model's {section} lacks {', '.join(missing) or error}.") from None


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    section = _need("config.json", values, name)
    if not isinstance(section, dict):
        raise InvalidConfig(f"The model's config.json has {name} = {shown(section)}; it must be a section.")
    return dict(section)


def _need(section: str, values: dict[str, Any], name: str) -> Any:
    if name not in values:
        raise InvalidConfig(f"The model's {section} lacks {name}.")
    return values[name]


def parse_omni(config: dict[str, Any]) -> DualARConfig:
    """`fish_qwen3_omni`, the layout of S2-Pro: nested sections for the two transformers."""
    _strict(
        "config.json",
        config,
        frozenset({"text_config", "audio_decoder_config", "semantic_start_token_id", "semantic_end_token_id"}),
    )
    text = _section(config, "text_config")
    audio = _section(config, "audio_decoder_config")
    _strict("text_config", text, _SIZES | {"scale_codebook_embeddings", "norm_fastlayer_input"})
    _strict(
        "audio_decoder_config",
        audio,
        _SIZES | {"num_codebooks", "scale_codebook_embeddings", "norm_fastlayer_input"},
    )
    return DualARConfig(
        slow=_transformer("text_config", text),
        fast=_transformer("audio_decoder_config", audio),
        num_codebooks=_need("audio_decoder_config", audio, "num_codebooks"),
        semantic_start_id=_need("config.json", config, "semantic_start_token_id"),
        semantic_end_id=_need("config.json", config, "semantic_end_token_id"),
        normed_fast_input=True,
        scaled_codebook_embeddings=True,
    )


_FLAT_FAST = {
    "n_fast_layer": "n_layer",
    "fast_dim": "dim",
    "fast_n_head": "n_head",
    "fast_n_local_heads": "n_local_heads",
    "fast_head_dim": "head_dim",
    "fast_intermediate_size": "intermediate_size",
    "fast_attention_qkv_bias": "attention_qkv_bias",
    "fast_attention_qk_norm": "attention_qk_norm",
    "fast_attention_o_bias": "attention_o_bias",
}


def parse_dual_ar(config: dict[str, Any], semantic_start_id: int, semantic_end_id: int) -> DualARConfig:
    """`dual_ar`, the flat layout of S1-mini. Semantic ids come from its tokenizer.

    Sizes of the Fast AR that are not given are those of the Slow AR, as in that release.
    """
    flags = {
        "codebook_size",
        "num_codebooks",
        "scale_codebook_embeddings",
        "norm_fastlayer_input",
        "semantic_begin_id",
        "semantic_end_id",
    }
    _strict("config.json", config, _SIZES | frozenset(_FLAT_FAST) | flags)
    for name, value in config.items():
        if value is not None and (name in _LIMITS or _FLAT_FAST.get(name) in _LIMITS):
            low, high = _LIMITS[_FLAT_FAST.get(name, name)]
            check_whole("The model's config.json", name, value, -1 if name == "n_local_heads" else low, high)
    slow = dict(config)
    slow.setdefault("n_local_heads", slow.get("n_head"))
    if slow["n_local_heads"] == -1:  # that release's way of saying "as many as heads"
        slow["n_local_heads"] = slow.get("n_head")
    if slow.get("head_dim") is None and slow.get("dim") and slow.get("n_head"):
        slow["head_dim"] = slow["dim"] // slow["n_head"]
    if slow.get("intermediate_size") is None and slow.get("dim"):
        slow["intermediate_size"] = -(-(2 * 4 * slow["dim"] // 3) // 256) * 256
    num_codebooks = _need("config.json", config, "num_codebooks")
    check_whole("The model's config.json", "num_codebooks", num_codebooks, 2, MAX_CODEBOOKS)
    fast = {name: slow.get(name) for name in _SIZES if name in slow}
    fast.update(attention_qk_norm=False, attention_qkv_bias=False, attention_o_bias=False)
    fast.update({ours: config[theirs] for theirs, ours in _FLAT_FAST.items() if config.get(theirs) is not None})
    fast.update(
        vocab_size=_need("config.json", config, "codebook_size"),
        max_seq_len=num_codebooks + 1,
        tie_word_embeddings=False,
    )
    return DualARConfig(
        slow=_transformer("config.json", slow),
        fast=_transformer("config.json", fast),
        num_codebooks=num_codebooks,
        semantic_start_id=semantic_start_id,
        semantic_end_id=semantic_end_id,
        normed_fast_input=config.get("norm_fastlayer_input", False),
        scaled_codebook_embeddings=config.get("scale_codebook_embeddings", False),
    )
