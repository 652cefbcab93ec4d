"""Who says what: lines `Name: …` and `[Name] …`, told apart from `Note: …`, times, addresses and style tags."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

MAX_SPEAKER = 40  # characters

# One to four words, as a name is written: with capitals where the script has any.
_WORD = r"[\p{L}\p{M}\p{N}.'’\-]{0,39}+"
_NAME = rf"[\p{{Lu}}\p{{Lt}}\p{{Lo}}]{_WORD}(?:\ [\p{{L}}\p{{N}}]{_WORD}){{0,3}}+"
_LINE = regex.compile(
    rf"(?:(?P<name>{_NAME})\ ?[:：](?!//|\d)|\[(?P<tag>{_NAME})\]:?(?!\())\s*(?P<text>.*)", regex.DOTALL
)


@dataclass(frozen=True)
class Turn:
    """Lines that one speaker says; None: nobody is named."""

    speaker: str | None
    lines: list[str]


def find_speakers(lines: Iterable[str]) -> frozenset[str]:
    """The names that lines begin with, where the text is a dialogue.

    One line that begins like that is a remark, as `Note: …`; names count when they return, or when at least half of
    all lines are theirs, up to the end of the paragraph (an empty line), and something is said there.
    """
    count, theirs, opened = 0, 0, False
    names, saying = Counter[str](), Counter[str]()
    for line, following in pairwise([*map(str.strip, lines), ""]):
        found = _match(line)
        opened = bool(line) and (opened or found is not None)
        count += bool(line)
        theirs += opened
        if found:
            name, text = found
            names[name] += 1
            saying[name] += bool(text or following)
    if saying.total() >= 2 and 2 * theirs >= count:
        return frozenset(+saying)
    return frozenset(name for name, times in names.items() if times >= 2)


def split_turns(lines: Sequence[str], speakers: frozenset[str]) -> list[Turn]:
    """The lines of a paragraph by who says them: who is named speaks to its end, or until another is.

    A name behind which nothing follows is no speaker's, but something to read out.
    """
    turns = [Turn(None, [])]
    for number, line in enumerate(lines, 1):
        found = _match(line)
        if found is None or found[0] not in speakers or (not found[1] and number == len(lines)):
            turns[-1].lines.append(line)
        else:
            name, text = found
            turns.append(Turn(name, [text] if text else []))
    return [turn for turn in turns if turn.lines]


def _match(line: str) -> tuple[str, str] | None:
    """Who says a line, and what."""
    found = _LINE.match(line)
    if found is None:
        return None
    name, tag, text = found.group("name", "tag", "text")
    speaker = " ".join((name or tag).split())
    return (speaker, text.strip()) if len(speaker) <= MAX_SPEAKER else None
