"""Text to token ids, whatever the release ships: a Hugging Face fast tokenizer (S2-Pro) or a tiktoken file (S1-mini).

A release of ours may add a lexicon: its texts are then spelled in phones before they are tokenised.
"""

import base64
import json
from collections.abc import Callable
from pathlib import Path

from engine.errors import InvalidCheckpoint, ReleaseIncomplete
from engine.pronunciation import Lexicon

IM_START, IM_END, VOICE = "<|im_start|>", "<|im_end|>", "<|voice|>"
LEXICON_FILE = "lexicon.json.gz"

# How S1 splits text before its merges, as that release has it (the escaped question mark included).
_TIKTOKEN_SPLIT = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"\p{P}",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(\?!\S)",
        r"\s+",
    )
)


class Tokenizer:
    """`encode` for the fixed words of a prompt, `encode_speech` for words that are spoken; special tokens by name."""

    def __init__(
        self,
        encode: Callable[[str], list[int]],
        find: Callable[[str], int | None],
        lexicon: Lexicon | None = None,
    ) -> None:
        self.encode = encode
        self._find = find
        self.lexicon = lexicon
        self.end_id = self.id(IM_END)
        self.semantic_start_id = self.id("<|semantic:0|>")

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """From a release's folder. Raises ReleaseIncomplete or InvalidCheckpoint."""
        lexicon_file = folder / LEXICON_FILE
        lexicon = Lexicon.load(lexicon_file) if lexicon_file.exists() else None
        try:
            if (folder / "tokenizer.json").exists():
                return cls(*_fast_tokenizer(folder / "tokenizer.json"), lexicon)
            if (folder / "tokenizer.tiktoken").exists():
                return cls(*_tiktoken(folder), lexicon)
        except (ValueError, OSError, KeyError) as error:
            raise InvalidCheckpoint(f"The tokenizer in {folder} cannot be read: {error}.") from error
        raise ReleaseIncomplete(f"{folder} has no tokenizer: neither tokenizer.json nor tokenizer.tiktoken is there.")

    def id(self, token: str) -> int:
        """The id of a special token. Raises InvalidCheckpoint when the tokenizer has none of that name."""
        found = self._find(token)
        if found is None:
            raise InvalidCheckpoint(f"The model's tokenizer has no token {token}; it is not of the S2 family.")
        return found

    def semantic_end_id(self, limit: int) -> int:
        """The last of the semantic tokens, which are numbered without a gap; at most `limit` are looked for."""
        last = self.semantic_start_id
        for i in range(1, limit):
            if self._find(f"<|semantic:{i}|>") != self.semantic_start_id + i:
                break
            last = self.semantic_start_id + i
        return last

    def encode_speech(self, text: str) -> list[int]:
        return self.encode(self.lexicon.phones(text) if self.lexicon else text)


def _fast_tokenizer(path: Path) -> tuple[Callable[[str], list[int]], Callable[[str], int | None]]:
    from tokenizers import Tokenizer as FastTokenizer

    try:
        tokenizer = FastTokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception
        raise ValueError(error) from error

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode, tokenizer.token_to_id


def _tiktoken(folder: Path) -> tuple[Callable[[str], list[int]], Callable[[str], int | None]]:
    import tiktoken

    special_file = folder / "special_tokens.json"
    if not special_file.exists():
        raise ReleaseIncomplete(f"{folder} has tokenizer.tiktoken but not special_tokens.json, which belongs to it.")
    special: dict[str, int] = json.loads(special_file.read_text(encoding="utf-8"))
    pairs = (line.split() for line in (folder / "tokenizer.tiktoken").read_text().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    encoding = tiktoken.Encoding(
        name=folder.name, pat_str=_TIKTOKEN_SPLIT, mergeable_ranks=ranks, special_tokens=special
    )

    def encode(text: str) -> list[int]:
        return encoding.encode(text, allowed_special="all")

    return encode, special.get
