"""Frozen, strictly checked sizes of a transformer."""

from dataclasses import dataclass

from engine.checks import MAX_VOCABULARY, check_flag, check_int, check_number
from engine.errors import InvalidConfig

# Smallest and largest value of each size, with room for several times S2-Pro's. A damaged config is rejected before
# anything of its sizes is allocated.
SIZE_LIMITS = {
    "vocab_size": (1, MAX_VOCABULARY),
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


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes of one decoder-only transformer. Widths in channels, `max_seq_len` in positions.

    The defaults are those of Fish Audio's configuration classes: what is equal to them may be missing in a saved one.
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
    rope_base: float = 10_000.0
    norm_eps: float = 1e-5
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
