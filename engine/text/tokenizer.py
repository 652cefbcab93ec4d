"""Tokenizers of releases: a Hugging Face fast tokenizer (S2-Pro) or a tiktoken file (S1-mini).

A release may add a lexicon; spoken text is then converted to phones before it is tokenised.
"""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.checks import MAX_VOCABULARY
from engine.errors import InvalidCheckpoint, ReleaseIncomplete, UnreadableFile, first_line
from engine.files.bounded import read_object, read_regular
from engine.text.english.pronunciation import Lexicon

_MAX_BYTES = 64 << 20  # S2-Pro's file has 12 MB
_MAX_ENTRIES = 3_000_000
IM_START, IM_END, VOICE, INTERLEAVE = "<|im_start|>", "<|im_end|>", "<|voice|>", "<|interleave|>"
LEXICON_FILE = "lexicon.json.gz"
_UNKNOWN = "<|unknown|>"  # token for words, in the tokenizers of `training.tokenizer`
_EMPTY_TOKEN = b"="  # S1's tools write it for a token of no bytes, which no text has, and skip it when they read

# S1's pre-tokenization pattern, exactly as in that release (including the escaped question mark).
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
    """Tokenizer with `encode` for the fixed parts of a prompt and `encode_speech` for spoken text."""

    def __init__(
        self,
        encode: Callable[[str], list[int]],
        find: Callable[[str], int | None],
        size: int,
        lexicon: Lexicon | None = None,
    ) -> None:
        """size: highest id + 1."""
        self.encode = encode
        self._find = find
        self.size = size
        self.lexicon = lexicon
        self.end_id = self.id(IM_END)
        self.semantic_start_id = self.id("<|semantic:0|>")

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Load from a release folder. Raises ReleaseIncomplete or InvalidCheckpoint."""
        lexicon_file = folder / LEXICON_FILE
        lexicon = Lexicon.load(lexicon_file) if lexicon_file.exists() else None
        with invalid_if_unreadable():
            if (folder / "tokenizer.json").exists():
                return cls(*_fast_tokenizer(folder / "tokenizer.json"), lexicon)
            if (folder / "tokenizer.tiktoken").exists():
                return cls(*_tiktoken(folder), lexicon)
        raise ReleaseIncomplete("release.no_tokenizer")

    def id(self, token: str) -> int:
        """Return the id of a special token. Raises InvalidCheckpoint if the tokenizer lacks it."""
        found = self._find(token)
        if found is None:
            raise InvalidCheckpoint(f"The model's tokenizer has no token {token}; it is not of the S2 family.")
        return found

    def semantic_end_id(self, limit: int) -> int:
        """Return the last semantic token id. Ids are contiguous; at most `limit` of them are looked up."""
        last = self.semantic_start_id
        for i in range(1, limit):
            if self._find(f"<|semantic:{i}|>") != self.semantic_start_id + i:
                break
            last = self.semantic_start_id + i
        return last

    def check_lexicon(self) -> None:
        """Raise ReleaseIncomplete if the tokens are phones and there is no lexicon: all words would be unknown."""
        unknown = self._find(_UNKNOWN)
        if self.lexicon is None and unknown is not None and self.encode("word") == [unknown]:
            raise ReleaseIncomplete("release.no_file", file=LEXICON_FILE)

    def encode_speech(self, text: str) -> list[int]:
        return self.encode(self.lexicon.phones(text) if self.lexicon else text)

    def count_phones(self, text: str) -> int | None:
        """Return the number of phones in spoken text; None without a lexicon."""
        return self.lexicon.count_phones(text) if self.lexicon else None


_Made = tuple[Callable[[str], list[int]], Callable[[str], int | None], int]


def _fast_tokenizer(path: Path) -> _Made:
    from tokenizers import Tokenizer as FastTokenizer

    data = read_regular(path, _MAX_BYTES)
    if data.count(b",") > _MAX_ENTRIES:  # the library allocates hundreds of bytes for each, even if it fails later
        raise ValueError("it has too many entries")
    tokenizer = without_panic(lambda: FastTokenizer.from_buffer(data))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode, tokenizer.token_to_id, 1 + max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)


def _tiktoken(folder: Path) -> _Made:
    import tiktoken

    special_file = folder / "special_tokens.json"
    if not special_file.exists():
        raise ReleaseIncomplete("release.no_special_tokens")
    special = read_object(special_file)
    pairs = [line.split() for line in read_regular(folder / "tokenizer.tiktoken", _MAX_BYTES).splitlines() if line]
    if len(pairs) > MAX_VOCABULARY or any(len(pair) != 2 for pair in pairs):
        raise ValueError("tokenizer.tiktoken is not a list of tokens and ranks")
    ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in pairs if token != _EMPTY_TOKEN}
    known = [*ranks.values(), *special.values()]
    if any(type(each) is not int or not 0 <= each < MAX_VOCABULARY for each in known) or len({*known}) < len(known):
        raise ValueError("its ids are not whole numbers, each once")
    encoding = without_panic(
        lambda: tiktoken.Encoding("release", pat_str=_TIKTOKEN_SPLIT, mergeable_ranks=ranks, special_tokens=special)
    )

    def encode(text: str) -> list[int]:
        ids: list[int] = encoding.encode(text, allowed_special="all")
        return ids

    return encode, special.get, 1 + max(known, default=-1)


@contextmanager
def invalid_if_unreadable() -> Iterator[None]:
    """Raise InvalidCheckpoint for what is raised while a tokenizer's files are read."""
    try:
        yield
    except UnreadableFile as error:
        raise InvalidCheckpoint(str(error)) from error
    except (ValueError, OSError, KeyError, TypeError, OverflowError) as error:
        raise InvalidCheckpoint(f"The model's tokenizer cannot be read: {first_line(error)}.") from error


def without_panic(make: Callable[[], Any]) -> Any:
    """Call a library written in Rust, and raise ValueError for its untyped errors and panics."""
    try:
        return make()
    except BaseException as error:  # a panic is not an Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ValueError(first_line(error)) from error
        raise
