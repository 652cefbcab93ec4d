"""Frozen, strictly checked sizes of a dual-AR model, and the checks that all configurations share."""

from dataclasses import dataclass

from engine.errors import InvalidConfig

# Smallest and largest value of each size, with room for several times S2-Pro's. A damaged config is rejected before
# anything of its sizes is allocated.
SIZE_LIMITS = {
    "vocab_size": (1, 1 << 20),
    "n_layer": (1, 256),
    "n_head": (1, 256),
    "n_local_heads": (1, 256),
    "head_dim": (2, 1024),
    "dim": (1, 1 << 16),
    "intermediate_size": (1, 1 << 18),
    "max_seq_len": (1, 1 << 20),
}
_WIDEST = 16  # maximum number of channels of all heads together, in multiples of `dim`
_LARGEST_TABLE = 1 << 23  # maximum of positions times head_dim of the rotary table
MAX_VOCABULARY = SIZE_LIMITS["vocab_size"][1]
MAX_CODEBOOKS = 64


def check_int(where: str, name: str, value: object, low: int, high: int) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be a whole number from {low:,} to {high:,}.")


def check_number(where: str, name: str, value: object, above: float, most: float) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is a number above `above` and at most `most`."""
    if type(value) not in (int, float) or not above < value <= most:  # type: ignore[operator]
        raise InvalidConfig(
            f"{where} has {name} = {shown(value)}; it must be a number above {above:g} and at most {most:g}."
        )


def check_flag(where: str, name: str, value: object) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is true or false."""
    if type(value) is not bool:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be true or false.")


def check_text(where: str, name: str, value: object, most: int) -> None:
    """Raise InvalidConfig, naming the setting, unless `value` is text of at most `most` characters."""
    if type(value) is not str or len(value) > most:
        raise InvalidConfig(f"{where} has {name} = {shown(value)}; it must be text of at most {most:,} characters.")


def shown(value: object) -> str:
    """Return the `repr` of a value for an error message, cut after 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def listed(names: list[str], most: int = 8) -> str:
    """Join names for an error message, at most `most` of them."""
    return ", ".join(name[:200] for name in names[:most]) + (
        f" and {len(names) - most} more" if len(names) > most else ""
    )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes of one decoder-only transformer. Widths in channels, `max_seq_len` in positions.

    rounded_rope: whether the rotary table is rounded to bf16, as in S2.
    """

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
    rounded_rope: bool = True

    def __post_init__(self) -> None:
        for name, (low, high) in SIZE_LIMITS.items():
            check_int("The model's config", name, getattr(self, name), low, high)
        check_number("The model's config", "rope_base", self.rope_base, 1, 1e12)
        check_number("The model's config", "norm_eps", self.norm_eps, 0, 1)
        for name in (
            "tie_word_embeddings",
            "attention_qkv_bias",
            "attention_o_bias",
            "attention_qk_norm",
            "rounded_rope",
        ):
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
    """Sizes of a dual-AR model: a Slow AR over time and a Fast AR over codebooks.

    `num_codebooks` is K, the semantic codebook included; `semantic_codebook_size` is the number of semantic tokens.
    `normed_fast_input` and `scaled_codebook_embeddings` are true for S2 and false for S1-mini.
    `penalises_repetition`: whether repeated tokens are sampled as in S1-mini.
    """

    slow: TransformerConfig
    fast: TransformerConfig
    num_codebooks: int
    semantic_start_id: int
    semantic_end_id: int
    normed_fast_input: bool
    scaled_codebook_embeddings: bool
    penalises_repetition: bool = False

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
