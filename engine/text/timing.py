"""Model-free estimates of speaking time in any script, for limits and proportions, not for word timings."""

import math
from collections import Counter
from functools import lru_cache

import regex

from engine.text.pauses import pause_seconds, without_pauses
from engine.text.tags import SPEAKER_TAG, STYLE_TAG

# Pattern, seconds per character at an ordinary pace, and minimum; the first matching pattern applies. Speech in any
# language has about 4 to 8 syllables a second and at most 10, so the values of a script follow from the syllables per
# character. Characters that may be silent have a minimum of 0.
_KINDS: tuple[tuple[str, float, float], ...] = (
    (r"\p{N}", 0.45, 0.03),  # digits are words, but 1,000,000 is two
    (r"\p{Han}", 0.25, 0.1),
    (
        r"[\p{Hangul}\p{Hiragana}\p{Katakana}\p{Ethiopic}\p{Yi}\p{Canadian_Aboriginal}\p{Cherokee}\p{Vai}]",
        0.2,
        0.08,
    ),
    (r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Armenian}\p{Georgian}--\P{L}]", 1 / 15, 1 / 33),
    (r"\p{L}", 0.1, 0.04),  # abjads leave vowels out, Indic consonants carry one
    (r"\p{M}", 0.06, 0.0),
    (r"[\p{SB=STerm}\p{SB=ATerm}…\n]", 0.5, 0.0),
    (r"[\p{SB=SContinue}\p{Pd};،、]", 0.25, 0.0),
    (r"[\p{S}%&@#*/§]", 0.5, 0.0),  # read as words, if at all
    (r"\s", 0.01, 0.0),
    (r"[\s\S]", 0.05, 0.0),
)
_KIND = regex.compile("|".join(f"({pattern})" for pattern, _, _ in _KINDS), regex.VERSION1)
# Acronyms are spelled. They are the only kind that depends on neighbours.
_ACRONYMS = regex.compile(r"(?:(?<=\p{Lu})\p{Lu}|\p{Lu}(?=\p{Lu}))++")
_SPELLED = 0.3
# Capitals may also be words, as in headlines, which take a quarter of that time. A text takes at most so many seconds,
# and such a share, more than if all of them were: its time lies between the two.
_MORE_SPELLED, _MORE_SPELLED_SHARE = 1.5, 0.5
_DRAWLED = regex.compile(r"(\p{L})\1{2,}")  # "Nooooo"
_TURN = 0.5  # seconds between two speakers

_SLOWEST = 2.2  # times the ordinary duration: a slow, hesitant or dramatic reading
_AROUND = 1.5  # seconds: silence before and after, and one long pause
_LEAST_OF_A_PHONE = 1 / 22  # seconds; readers speak 10 to 15 phones a second


def speaking_time(text: str, *, all_spelled: bool = False) -> float:
    """Estimate the seconds to say `text` at an ordinary pace, pauses included. More text never takes less time.

    all_spelled: all words in capitals are acronyms.
    """
    if "[" in text:
        return pause_seconds(text) + _speaking_time(without_pauses(text), all_spelled)
    return _speaking_time(text, all_spelled)


def _speaking_time(text: str, all_spelled: bool) -> float:
    turns = SPEAKER_TAG.split(text) if "<|" in text else [text]
    return sum(_turn_time(turn, all_spelled) for turn in turns) + _TURN * (len(turns) - 1)


def _turn_time(text: str, all_spelled: bool) -> float:
    """Estimate one turn. Each distinct character is looked up once, since long texts have few."""
    seconds = sum(_character_times(character)[0] * times for character, times in Counter(text).items())
    if acronyms := _ACRONYMS.findall(text):
        spelled = Counter("".join(acronyms))
        more = sum((_SPELLED - _character_times(letter)[0]) * times for letter, times in spelled.items())
        most = _MORE_SPELLED + _MORE_SPELLED_SHARE * seconds  # it grows with the text, too
        seconds += more if all_spelled else min(more, most)
    return seconds


@lru_cache(maxsize=4096)
def _character_times(character: str) -> tuple[float, float]:
    """Return the seconds of a character at an ordinary pace, and the minimum."""
    found = _KIND.match(character)
    return _KINDS[(found.lastindex or 1) - 1][1:] if found else (0.0, 0.0)


def least_time(text: str, phones: int | None = None) -> float:
    """Return the seconds that the fastest reader needs for `text`. Shorter speech lacks words.

    phones: number of phones, if the model has a lexicon; more accurate than characters.
    """
    if phones is not None:
        return phones * _LEAST_OF_A_PHONE
    spoken = _DRAWLED.sub(r"\1\1", STYLE_TAG.sub("", SPEAKER_TAG.sub("", text)))
    return sum(_character_times(character)[1] * times for character, times in Counter(spoken).items())


def frame_budget(text: str, frame_rate: float) -> int:
    """Return the maximum frames of a segment, enough for a very slow reader. A longer take has missed the end.

    Args:
        text: one segment, in any script.
        frame_rate: codec frames per second.
    """
    return math.ceil((_AROUND + _SLOWEST * speaking_time(text, all_spelled=True)) * frame_rate)


def frame_minimum(text: str, frame_rate: float, phones: int | None = None) -> int:
    """Return the minimum frames of a segment. A shorter take has left out words.

    Arguments as for `frame_budget` and `least_time`.
    """
    return math.ceil(least_time(text, phones) * frame_rate)
