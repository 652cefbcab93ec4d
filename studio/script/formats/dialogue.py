"""Speakers of lines `Name: …`, `Name (aside): …` and `[Name] …`, distinguished from `Note: …`, times, addresses and
style tags.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

from storage.scripts.limits import MAX_SPEAKER

# One to four words besides particles, as in "1st Man of the Guard"; capitalised where the writing system has capitals.
_WORD = r"[\p{L}\p{M}\p{N}.'’&/\-]{0,39}+"
_PARTICLES = r"(?:(?:of|the|and|de|del|la|las|los|y|du|des|et|von|van|der|den|und|di|da|&)\ ){0,3}"
_NAME = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)\ )?+[\p{{Lu}}\p{{Lt}}\p{{Lo}}]{_WORD}"
    rf"(?:\ {_PARTICLES}[\p{{L}}\p{{N}}]{_WORD}){{0,3}}+"
)
_TIME = r"[\[(]\d{1,4}[/.:\-]\d[\d/.,:\-\ ]{0,24}(?:[AaPp][Mm])?[\])]"  # [10:32] of a chat
_DIRECTION = r"\([^()\n]{1,80}\)|\[[^\[\]\n]{1,80}\]"  # such as (aside); it is text
_LINE = regex.compile(
    rf"(?:{_TIME}\s*)?(?:(?P<name>{_NAME})\ ?(?:{_TIME}|(?P<direction>{_DIRECTION}))?\ ?[:：](?!//|\d)"
    rf"|\[(?P<tag>{_NAME})\]:?(?!\())"
    r"\s*(?P<text>.*)",
    regex.DOTALL,
)


@dataclass(frozen=True)
class SpeakerLines:
    """Consecutive lines of one speaker; None where no speaker is named."""

    speaker: str | None
    lines: list[str]


def find_speakers(lines: Iterable[str], *, throughout: bool = False) -> frozenset[str]:
    """Find the names at the beginning of lines, if the text is a dialogue.

    A single such line is a remark, such as `Note: …`. Names count if they occur at least twice, or if at least half of
    all lines belong to speakers and text follows the name. A speaker's lines end with the paragraph, at an empty line.

    throughout: names count only in the second case, as in a book, where twice is not often.
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
    return frozenset(name for name, times in names.items() if times >= 2 and not throughout)


def split_by_speaker(
    lines: Sequence[str], speakers: frozenset[str], listed: frozenset[str] = frozenset()
) -> list[SpeakerLines]:
    """Split the lines of a paragraph by speaker. A speaker's lines end at the next name or with the paragraph.

    listed: names that are known to be speakers', of any form. A name that nothing follows is read aloud as text.
    """
    parts, known = [SpeakerLines(None, [])], speakers | listed
    for number, line in enumerate(lines, 1):
        found = _match_listed(line, listed) or _match(line)
        if found is None or found[0] not in known or (not found[1] and number == len(lines)):
            parts[-1].lines.append(line)
        else:
            name, text = found
            parts.append(SpeakerLines(name, [text] if text else []))
    return [part for part in parts if part.lines]


def _match_listed(line: str, listed: frozenset[str]) -> tuple[str, str] | None:
    """Return the listed speaker of a line `name: text`, the longest that fits, and the text."""
    colon = line.rfind(":", 0, MAX_SPEAKER + 1) if listed else -1
    while colon > 0:
        if line[:colon] in listed:
            return line[:colon], line[colon + 1 :].strip()
        colon = line.rfind(":", 0, colon)
    return None


def _match(line: str) -> tuple[str, str] | None:
    """Return the speaker and the text of a line; None if it names no speaker."""
    found = _LINE.match(line)
    if found is None:
        return None
    name, tag, direction, text = found.group("name", "tag", "direction", "text")
    speaker = " ".join((name or tag).split())
    return (speaker, f"{direction or ''} {text}".strip()) if len(speaker) <= MAX_SPEAKER else None
