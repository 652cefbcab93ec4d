"""The two marks that text may carry: `[tags]` for style, and `<|speaker:i|>` for who speaks."""

import regex

SPEAKER_TAG = regex.compile(r"<\|speaker:[0-9]{1,4}\|>")
STYLE_TAG = regex.compile(r"\[[^\[\]\n]{1,80}\]")

# Something that has a sound: letters and digits of any script, currencies, and the signs that are read as
# words.
_SPOKEN = regex.compile(r"[\p{L}\p{N}\p{Sc}%&@+=°№§]")


def is_spoken(text: str) -> bool:
    """Whether there is anything to say, or to sigh (`[sigh]` counts): not only punctuation, pictures and
    speaker tags."""
    return _SPOKEN.search(SPEAKER_TAG.sub("", text)) is not None


def has_words(text: str) -> bool:
    """Whether there is anything to say beside the tags."""
    return is_spoken(STYLE_TAG.sub("", text))
