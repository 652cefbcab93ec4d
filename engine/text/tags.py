"""Marks in text (`[tags]` for style, `<|speaker:i|>` for speakers), and the characters that are pronounced."""

import unicodedata

import regex

MAX_STYLE = 80  # characters of a style tag
SPEAKER_TAG = regex.compile(r"<\|speaker:[0-9]{1,4}\|>")
STYLE_TAG = regex.compile(rf"\[[^\[\]\n]{{1,{MAX_STYLE}}}\]")
_NO_STYLE = regex.compile(r"[\[\]<|>\s]+")  # also marks of control tokens, which would get into a prompt

# Pronounced characters: letters and digits of any script, currencies, and signs that are read as words.
_SPOKEN = regex.compile(r"[\p{L}\p{N}\p{Sc}%&@+=°№§]")

# Scripts written without spaces between words.
SPACELESS = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Tai_Le}\p{New_Tai_Lue}]"
)
_WORD = regex.compile(
    rf"[\p{{Ps}}\p{{Pi}}\"']*+{SPACELESS}\p{{M}}*+(?:(?!{SPACELESS}|[\p{{Ps}}\p{{Pi}}])[\p{{P}}\p{{Lm}}\p{{Sk}}])*+"
    rf"|(?:(?!{SPACELESS})\S)++"
)
_PILE = regex.compile(r"(\p{M}{30})\p{M}++")


def compose(text: str) -> str:
    """Return text in normal form C, with at most 30 combining marks per letter.

    Unicode's stream-safe format (UAX #15) allows as many. The time to sort longer sequences is quadratic in their
    length.
    """
    return _PILE.sub(r"\1", unicodedata.normalize("NFC", _PILE.sub(r"\1", text)))


def is_speakable(text: str) -> bool:
    """Whether text has anything to speak besides punctuation and emoji. Style tags such as `[sigh]` count."""
    return _SPOKEN.search(SPEAKER_TAG.sub("", text) if "<|" in text else text) is not None


def has_words(text: str) -> bool:
    """Whether text has anything to speak besides its tags."""
    return is_speakable(STYLE_TAG.sub("", text) if "[" in text else text)


def speaker_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of all speaker tags of a text, in order."""
    return tuple(int(tag[len("<|speaker:") : -len("|>")]) for tag in SPEAKER_TAG.findall(text))


def style_tag(style: str) -> str:
    """Return the style tag for a description of any length; "" if it is empty."""
    style = _NO_STYLE.sub(" ", style).strip()
    if len(style) > MAX_STYLE:
        style = style[: MAX_STYLE + 1].rpartition(" ")[0] or style[:MAX_STYLE]
    return f"[{style}]" if style else ""


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word of a text, without tags; of each letter in scripts without spaces."""
    return [found.span() for found in _WORD.finditer(blank_tags(text))]


def blank_tags(text: str) -> str:
    """Return text with each tag replaced by as many spaces."""
    for tag in (SPEAKER_TAG, STYLE_TAG):
        text = tag.sub(lambda found: " " * len(found[0]), text)
    return text
