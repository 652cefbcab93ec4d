"""The two marks that text may carry (`[tags]` for style, `<|speaker:i|>` for who speaks), and what has a sound."""

import unicodedata

import regex

SPEAKER_TAG = regex.compile(r"<\|speaker:[0-9]{1,4}\|>")
STYLE_TAG = regex.compile(r"\[[^\[\]\n]{1,80}\]")

# Something that has a sound: letters and digits of any script, currencies, and the signs that are read as
# words.
_SPOKEN = regex.compile(r"[\p{L}\p{N}\p{Sc}%&@+=°№§]")

_PILE = regex.compile(r"(\p{M}{30})\p{M}++")


def compose(text: str) -> str:
    """Text in normal form C, with at most 30 combining marks on one letter.

    That is as many as Unicode's stream-safe format (UAX #15) allows; sorting longer rows takes time that grows with
    the square of their length.
    """
    return _PILE.sub(r"\1", unicodedata.normalize("NFC", _PILE.sub(r"\1", text)))


def is_spoken(text: str) -> bool:
    """Whether there is anything to say, or to sigh (`[sigh]` counts): not only punctuation, pictures and
    speaker tags."""
    return _SPOKEN.search(SPEAKER_TAG.sub("", text) if "<|" in text else text) is not None


def has_words(text: str) -> bool:
    """Whether there is anything to say beside the tags."""
    return is_spoken(STYLE_TAG.sub("", text) if "[" in text else text)
