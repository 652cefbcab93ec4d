"""Strict parsing of configurations written by transformers. Unknown settings are refused."""

from collections.abc import Collection, Mapping
from typing import Any

from engine.checks import listed, shown
from engine.errors import InvalidConfig

# Settings that transformers writes for every model. They do not affect this model's output.
_GENERIC = frozenset(
    """_name_or_path add_cross_attention architectures attn_implementation auto_map bad_words_ids begin_suppress_tokens
    bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample
    dtype early_stopping encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id id2label initializer_range is_decoder is_encoder_decoder label2id
    length_penalty max_length min_length model_type no_repeat_ngram_size num_beam_groups num_beams num_return_sequences
    output_attentions output_hidden_states output_scores pad_token_id prefix problem_type pruned_heads
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id suppress_tokens
    task_specific_params temperature tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p
    torch_dtype torchscript transformers_version typical_p use_bfloat16 use_cache""".split()
)


class Section:
    """One section of a configuration. Settings are taken one by one; `end` refuses the remaining ones.

    where: name of the section in messages.
    """

    def __init__(self, where: str, values: object) -> None:
        if not isinstance(values, dict):
            raise InvalidConfig(f"The {where} must be a section, not {shown(values)}.")
        self.where = where
        self._values: dict[str, Any] = dict(values)

    def take(self, name: str, default: Any = ...) -> Any:
        """Take a setting. Raises InvalidConfig if it is missing and has no default."""
        if name not in self._values and default is ...:
            raise InvalidConfig(f"The {self.where} lacks {name}.")
        return self._values.pop(name, default)

    def section(self, name: str) -> "Section":
        return Section(f"{self.where}'s {name}", self.take(name))

    def expect(self, **allowed: Collection[object]) -> None:
        """Take settings. Raises InvalidConfig unless each has one of its allowed values; the first is the default."""
        for name, values in allowed.items():
            found = self.take(name, next(iter(values)))
            if found not in values:
                raise InvalidConfig(f"The {self.where} has {name} = {shown(found)}, which Reprise does not know.")

    def end(self, ignored: Collection[str] = ()) -> None:
        """Raise InvalidConfig, naming the remaining settings, unless all of them are known to have no effect."""
        unknown = sorted(set(self._values) - _GENERIC - set(ignored))
        if unknown:
            raise InvalidConfig(f"The {self.where} has settings that Reprise does not know: {listed(unknown)}.")


def names_to_ids(section: Section, name: str) -> Mapping[str, object]:
    """Take a mapping from names, empty if missing or null, with the names in lower case. Raises InvalidConfig."""
    found = section.take(name, None) or {}
    if not isinstance(found, dict) or any(not isinstance(key, str) or len(key) > 80 for key in found):
        raise InvalidConfig(f"The {section.where} has {name} = {shown(found)}; it must map names.")
    return {key.lower(): value for key, value in found.items()}
