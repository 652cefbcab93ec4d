"""Sizes of a dual-AR model, parsed from `config.json` of the Fish Audio S2-Pro (`fish_qwen3_omni`) and S1-mini
(`dual_ar`) releases."""

from dataclasses import dataclass
from typing import Any

from engine.checks import MAX_CODEBOOKS, MAX_VOCABULARY, check_flag, check_int, listed, shown
from engine.errors import InvalidConfig
from engine.models.config import SIZE_LIMITS, TransformerConfig

# Settings that other programs keep in the same files. They do not affect the output of the models that are read here.
_IGNORED = frozenset(
    """model_type architectures dtype torch_dtype use_bfloat16 transformers_version dropout initializer_range
    use_gradient_checkpointing is_reward_model use_cache eos_token_id bos_token_id pad_token_id
    audio_pad_token_id text_dim audio_embed_dim audio_hidden_dim auto_map _name_or_path
    num_experts num_experts_per_tok norm_topk_prob moe_intermediate_size use_aux_loss_free router_gamma""".split()
)
# Settings with one supported value: dense layers, no audio encoder, one table of the Fast AR for all codebooks.
_ONLY = {"use_moe": False, "audio_encoder_config": None, "share_codebook_embeddings": True}
_SIZE_NAMES = frozenset(TransformerConfig.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class DualARConfig:
    """Sizes of a dual-AR model: a Slow AR over time and a Fast AR over codebooks.

    `num_codebooks` is K, the semantic codebook included; `semantic_codebook_size` is the number of semantic tokens.
    `normed_fast_input` and `scaled_codebook_embeddings` are true for S2; for S1-mini its config.json tells, where each
    is false unless named.
    `redraws_repetition`: true for S2 and false for S1-mini; see `engine.families.s2.sampling`.
    """

    slow: TransformerConfig
    fast: TransformerConfig
    num_codebooks: int
    semantic_start_id: int
    semantic_end_id: int
    normed_fast_input: bool
    scaled_codebook_embeddings: bool
    redraws_repetition: bool = True

    def __post_init__(self) -> None:
        check_int("The model's config", "num_codebooks", self.num_codebooks, 2, MAX_CODEBOOKS)
        for name in ("semantic_start_id", "semantic_end_id"):
            check_int("The model's config", name, getattr(self, name), 0, MAX_VOCABULARY)
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


def _strict(section: str, values: dict[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(set(values) - known - _IGNORED - _ONLY.keys())
    if unknown:
        raise InvalidConfig(f"The model's {section} has settings that Reprise does not know: {listed(unknown)}.")
    for name, only in _ONLY.items():
        if values.get(name, only) is not only:
            raise InvalidConfig(
                f"The model's {section} has {name} = {shown(values[name])}; Reprise reads only models with {only!r}."
            )


def _transformer(section: str, values: dict[str, Any]) -> TransformerConfig:
    try:
        return TransformerConfig(**{k: v for k, v in values.items() if k in _SIZE_NAMES})
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
    """Parse `fish_qwen3_omni`, the layout of S2-Pro: a section for each transformer. Raises InvalidConfig."""
    _strict(
        "config.json",
        config,
        frozenset({"text_config", "audio_decoder_config", "semantic_start_token_id", "semantic_end_token_id"}),
    )
    text = _section(config, "text_config")
    audio = _section(config, "audio_decoder_config")
    _strict("text_config", text, _SIZE_NAMES | {"scale_codebook_embeddings", "norm_fastlayer_input"})
    _strict(
        "audio_decoder_config",
        audio,
        _SIZE_NAMES | {"num_codebooks", "scale_codebook_embeddings", "norm_fastlayer_input"},
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
    """Parse `dual_ar`, the flat layout of S1-mini. The semantic ids come from its tokenizer.

    Sizes of the Fast AR default to those of the Slow AR, as in that release. Raises InvalidConfig.
    """
    flags = {
        "codebook_size",
        "num_codebooks",
        "scale_codebook_embeddings",
        "norm_fastlayer_input",
        "semantic_begin_id",
        "semantic_end_id",
    }
    _strict("config.json", config, _SIZE_NAMES | frozenset(_FLAT_FAST) | flags)
    for name, value in config.items():
        if value is not None and (name in SIZE_LIMITS or _FLAT_FAST.get(name) in SIZE_LIMITS):
            low, high = SIZE_LIMITS[_FLAT_FAST.get(name, name)]
            check_int("The model's config.json", name, value, -1 if name == "n_local_heads" else low, high)
    slow = dict(config)
    slow.setdefault("n_local_heads", slow.get("n_head"))
    if slow["n_local_heads"] == -1:  # in that release: as many as heads
        slow["n_local_heads"] = slow.get("n_head")
    if slow.get("head_dim") is None and slow.get("dim") and slow.get("n_head"):
        slow["head_dim"] = slow["dim"] // slow["n_head"]
    if slow.get("intermediate_size") is None and slow.get("dim"):
        slow["intermediate_size"] = -(-(2 * 4 * slow["dim"] // 3) // 256) * 256
    num_codebooks = _need("config.json", config, "num_codebooks")
    check_int("The model's config.json", "num_codebooks", num_codebooks, 2, MAX_CODEBOOKS)
    fast = {name: slow.get(name) for name in _SIZE_NAMES if name in slow}
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
        redraws_repetition=False,
    )
