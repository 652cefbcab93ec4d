"""Rules that write out parts of a text: a pattern, and its replacement as for `re.sub`."""

import re
from collections.abc import Callable

Replacement = Callable[[re.Match[str]], str] | str
Rule = tuple[re.Pattern[str], Replacement]

# Marks a word to be spelled; a private-use character, which normalised text never contains.
SPELL = "\ue000"
# The first form groups digits as in India: "1,00,000". The number of groups is limited, because a list such as
# "53,53,53" would be read to its end from each of its numbers.
NUMBER = r"(?:\d{1,2}(?:,\d{2}){1,6},\d{3}|\d+(?:,\d{3}){0,6})(?:\.\d+)?"
STOP = r"(?:\.(?=[,)/]|-[a-z]|\s+[(a-z]))?"  # of a unit, and not of the sentence

NAME = re.compile(r"\s*+[A-Z]")  # that follows
DIRECTIONS = {"N": "North", "E": "East", "S": "South", "W": "West"}

_TEXT_ENDS = re.compile(r"\s*+\Z")


def rule(pattern: str, replacement: Replacement) -> Rule:
    """Return a rule."""
    return re.compile(pattern), replacement


def ends_text(match: re.Match[str]) -> bool:
    """Whether the match ends the text, so that the full stop of an abbreviation also ends the sentence."""
    return _TEXT_ENDS.match(match.string, match.end()) is not None


def before(match: re.Match[str], reach: int) -> str:
    """Return up to `reach` characters before the match."""
    return match.string[max(0, match.start() - reach) : match.start()]


def spelled(letters: str, stop: bool = False) -> str:
    """Return letters, with or without full stops between them, as a word to be spelled. stop: end the sentence."""
    return letters.upper().replace(".", "") + SPELL + ("." if stop else "")
