"""Estimates of speaking time in any script, without a model: for budgets and proportions, not for timing words."""

import math
from collections import Counter
from functools import lru_cache

import regex

from engine.text.marks import SPEAKER_TAG

# Seconds at an ordinary pace per character of a kind; the first matching kind counts. Speech in all languages has about
# 4 to 8 syllables a second, so a script's figure follows from the share of a syllable in its characters.
_KINDS: tuple[tuple[str, float], ...] = (
    (r"\p{N}", 0.45),  # digits are words
    (r"\p{Han}", 0.25),
    (
        r"[\p{Hangul}\p{Hiragana}\p{Katakana}\p{Ethiopic}\p{Yi}\p{Canadian_Aboriginal}\p{Cherokee}\p{Vai}]",
        0.2,
    ),
    (r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Armenian}\p{Georgian}--\P{L}]", 1 / 15),
    (r"\p{L}", 0.1),  # abjads leave vowels out, Indic consonants carry one
    (r"\p{M}", 0.06),
    (r"[\p{SB=STerm}\p{SB=ATerm}…\n]", 0.5),
    (r"[\p{SB=SContinue}\p{Pd};،、]", 0.25),
    (r"[\p{S}%&@#*/§]", 0.5),  # read as words, if at all
    (r"\s", 0.01),
    (r"[\s\S]", 0.05),
)
_KIND = regex.compile("|".join(f"({pattern})" for pattern, _ in _KINDS), regex.VERSION1)
_SECONDS = tuple(seconds for _, seconds in _KINDS)
# The only kind that depends on neighbours: acronyms are spelled.
_ACRONYMS = regex.compile(r"(?:(?<=\p{Lu})\p{Lu}|\p{Lu}(?=\p{Lu}))++")
_SPELLED = 0.3
_TURN = 0.5  # seconds between two speakers

_SLOWEST = 2.2  # times as long as at an ordinary pace: a slow, hesitant or dramatic reading
_AROUND = 1.5  # seconds: silence before and after, and one long pause


def speaking_time(text: str) -> float:
    """Estimate the seconds to say `text` at an ordinary pace. More text never takes less."""
    turns = SPEAKER_TAG.split(text) if "<|" in text else [text]
    return sum(map(_turn_time, turns)) + _TURN * (len(turns) - 1)


def _turn_time(text: str) -> float:
    """Estimate one turn. Each distinct character is looked up once: long texts have few."""
    seconds = sum(_character_time(character) * times for character, times in Counter(text).items())
    if acronyms := _ACRONYMS.findall(text):
        spelled = Counter("".join(acronyms))
        seconds += sum((_SPELLED - _character_time(letter)) * times for letter, times in spelled.items())
    return seconds


@lru_cache(maxsize=4096)
def _character_time(character: str) -> float:
    found = _KIND.match(character)
    return _SECONDS[(found.lastindex or 1) - 1] if found else 0.0


def frame_budget(text: str, frame_rate: float) -> int:
    """Return the most frames of a segment, enough for a very slow reader. A model that exceeds it has missed the end.

    Args:
        text: one segment, in any script.
        frame_rate: codec frames per second.
    """
    return math.ceil((_AROUND + _SLOWEST * speaking_time(text)) * frame_rate)
