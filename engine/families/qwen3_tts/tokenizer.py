"""The text tokenizer of a Qwen3-TTS release: Qwen2's byte-level BPE."""

import re
from pathlib import Path
from typing import Any

from engine.checks import MAX_VOCABULARY
from engine.errors import ReleaseIncomplete
from engine.files.bounded import read_object, read_regular
from engine.text.tokenizer import invalid_if_unreadable, without_panic

_MAX_BYTES = 64 << 20
_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")
# Qwen2's pre-tokenization pattern.
_SPLIT = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


class TextTokenizer:
    """Byte-level BPE tokenizer. `encode` also recognises special tokens in the text. size: highest id + 1."""

    def __init__(self, folder: Path) -> None:
        """Read `tokenizer.json`, or `vocab.json`, `merges.txt` and `tokenizer_config.json`.

        Raises ReleaseIncomplete or InvalidCheckpoint.
        """
        with invalid_if_unreadable():
            self._tokenizer = _load(folder)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.size = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        added = [re.escape(token.content) for token in self._tokenizer.get_added_tokens_decoder().values()]
        self._added = re.compile("|".join(added) or "(?!)")

    def without_own_tokens(self, text: str) -> str:
        """Replace what `encode` would take for a token of its own, such as `<tts_pad>`, by spaces."""
        return self._added.sub(" ", text)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def _load(folder: Path) -> Any:
    from tokenizers import Tokenizer

    if (folder / "tokenizer.json").exists():
        data = read_regular(folder / "tokenizer.json", _MAX_BYTES)
        return without_panic(lambda: Tokenizer.from_buffer(data))
    missing = [name for name in _FILES if not (folder / name).exists()]
    if missing:
        raise ReleaseIncomplete("release.lacks", files=missing)
    vocabulary = read_object(folder / "vocab.json")
    if len(vocabulary) > MAX_VOCABULARY or any(type(token) is not int for token in vocabulary.values()):
        raise ValueError("vocab.json maps tokens to other things than their ids")
    lines = read_regular(folder / "merges.txt", _MAX_BYTES).decode().splitlines()
    pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("merges.txt is not a list of pairs")
    merges = [(left, right) for left, right in pairs]
    added = read_object(folder / "tokenizer_config.json").get("added_tokens_decoder", {})
    return without_panic(lambda: _made(vocabulary, merges, added))


def _made(vocabulary: dict[str, int], merges: list[tuple[str, str]], added: dict[str, dict[str, Any]]) -> Any:
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    for token_id, token in sorted(added.items(), key=lambda item: int(item[0])):
        tokenizer.add_tokens([AddedToken(token["content"], normalized=False, special=bool(token.get("special")))])
        if tokenizer.token_to_id(token["content"]) != int(token_id):
            raise ValueError(f"{token['content']} has another id than the file says")
    return tokenizer
