"""The bundled model's tokenizer: a token is a phone, a punctuation mark, or a word of the prompt's fixed phrases."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from engine.text.english.pronunciation import TOKENS

PROMPT_WORDS = ("system user assistant convert the provided text to speech reference following: Text: Speech:").split()
CONTROL = ["<|pad|>", "<|im_start|>", "<|im_end|>", "<|voice|>", *(f"<|speaker:{i}|>" for i in range(8))]


def build_tokenizer(semantic_size: int) -> Tokenizer:
    """Build the tokenizer. Order of ids: control, unknown, phones, marks, prompt words, semantic tokens."""
    semantic = [f"<|semantic:{i}|>" for i in range(semantic_size)]
    words = [*CONTROL, "<|unknown|>", *TOKENS, *PROMPT_WORDS, *semantic]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<|unknown|>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in [*CONTROL, *semantic]])
    return tokenizer


def save_tokenizer(folder: Path, semantic_size: int) -> Tokenizer:
    tokenizer = build_tokenizer(semantic_size)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer
