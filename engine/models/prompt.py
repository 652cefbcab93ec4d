"""The input that a model continues."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Prompt:
    """Input columns that the model continues.

    columns: int64 `[rows, T]`, T ≥ 2; the meaning of the rows is the family's. Prompts with equal columns are equal.
    shared: length of the prefix that other requests may share (a voice). A prefill chunk ends with it, so that all of
        it is reused.
    generated_ranges: ranges [first, stop) of the columns that were generated frame by frame in the request's earlier
        turns, in order. Their keys and values are reused.
    independent: whether the request's later prompts do not repeat this one and what is generated for it.
    embedding: float `[D]`, which replaces an embedding in columns of the prompt (a speaker); the columns identify it.
    codec_context: codes `[K, T]` that the codec decodes before the first turn of a take; None to begin at silence.
    """

    columns: Tensor
    shared: int = 0
    generated_ranges: tuple[tuple[int, int], ...] = ()
    independent: bool = False
    embedding: Tensor | None = None
    codec_context: Tensor | None = None
