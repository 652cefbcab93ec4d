"""Marks in text (`[tags]` for style, `<|speaker:i|>` for speakers), and the characters that are pronounced."""

import unicodedata

import regex

SPEAKER_TAG = regex.compile(r"<\|speaker:[0-9]{1,4}\|>")
STYLE_TAG = regex.compile(r"\[[^\[\]\n]{1,80}\]")

# Pronounced characters: letters and digits of any script, currencies, and signs that are read as words.
_SPOKEN = regex.compile(r"[\p{L}\p{N}\p{Sc}%&@+=°№§]")

_WORD = regex.compile(r"\S+")
_PILE = regex.compile(r"(\p{M}{30})\p{M}++")


def compose(text: str) -> str:
    """Return text in normal form C, with at most 30 combining marks per letter.

    Unicode's stream-safe format (UAX #15) allows as many; the time to sort longer rows grows with the square of their
    length.
    """
    return _PILE.sub(r"\1", unicodedata.normalize("NFC", _PILE.sub(r"\1", text)))


def is_spoken(text: str) -> bool:
    """Whether text has anything to speak, style tags such as `[sigh]` included, beside punctuation and pictures."""
    return _SPOKEN.search(SPEAKER_TAG.sub("", text) if "<|" in text else text) is not None


def has_words(text: str) -> bool:
    """Whether text has anything to speak beside its tags."""
    return is_spoken(STYLE_TAG.sub("", text) if "[" in text else text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each written word of a text, between spaces, without tags."""
    for tag in (SPEAKER_TAG, STYLE_TAG):
        text = tag.sub(lambda found: " " * len(found[0]), text)
    return [found.span() for found in _WORD.finditer(text)]
