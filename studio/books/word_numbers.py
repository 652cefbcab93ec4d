"""The numbers that Word shows before the paragraphs of numbered lists and headings."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, NamedTuple

from docx.oxml.ns import qn

from studio.books.list_numbers import NUMBERED, whole_number

_PROPERTIES = qn("w:pPr")
# Word has no more; a malicious document could have any number.
_LEVELS = 9  # of a list
_STYLES = 20  # that are based on each other
_PLACE = re.compile(r"%([1-9])")  # of the number of a level, from 1 on, in the text of a level


class _Level(NamedTuple):
    """A level of a list. style: id of the style of its paragraphs, or None."""

    start: int
    format: str
    text: str
    style: str | None


class WordNumbers:
    """The numbers of all lists. `numbered` is called for each paragraph, in the order of the document."""

    def __init__(self, numbering: Any, styles: Any) -> None:
        """numbering: the element `w:numbering`, None for a document without lists. styles: `w:styles`."""
        lists = [] if numbering is None else numbering.findall(qn("w:abstractNum"))
        numbers = [] if numbering is None else numbering.findall(qn("w:num"))
        self._levels = {each.get(qn("w:abstractNumId")): _levels(each) for each in lists}
        self._lists = {each.get(qn("w:numId")): value_of(each, qn("w:abstractNumId")) or "" for each in numbers}
        self._starts = {each.get(qn("w:numId")): _starts(each) for each in numbers}
        self._styles = {each.get(qn("w:styleId")): each for each in styles.findall(qn("w:style"))}
        self._last: dict[str, dict[int, int]] = defaultdict(dict)  # numbers by list and level

    def numbered(self, text: str, paragraph: Any) -> str:
        """Return the text of a paragraph with its number, if it has a decimal one and none of its own."""
        style = value_of(paragraph, f"{_PROPERTIES}/{qn('w:pStyle')}")
        number, given = self._item(paragraph, style)
        levels = self._levels.get(self._lists.get(number, ""), {})
        of_style = (level for level, each in levels.items() if style is not None and each.style == style)
        level = next(of_style, 0) if given is None else whole_number(given, 0)
        if level not in levels:
            return text
        shown = self._next(number, level)
        is_shown = (text or any(map(str.isalpha, shown))) and not NUMBERED.match(text)
        return f"{shown} {text}".strip() if is_shown else text

    def _item(self, paragraph: Any, style: str | None) -> tuple[str, str | None]:
        """Return the number of a paragraph's list, "" without one, and its level, if they name one.

        They are those of the paragraph, or else of its style and of the styles that this is based on.
        """
        element = paragraph
        for _ in range(_STYLES):
            found = element.find(f"{_PROPERTIES}/{qn('w:numPr')}")
            if found is not None and (number := value_of(found, qn("w:numId"))) is not None:
                return number, value_of(found, qn("w:ilvl"))
            element = self._styles.get(style)
            if element is None:
                break
            style = value_of(element, qn("w:basedOn"))
        return "", None

    def _next(self, number: str, level: int) -> str:
        """Count an item, and return its number as it is shown; "" if it is not decimal."""
        last, levels = self._last[self._lists[number]], self._levels[self._lists[number]]
        last.update({at: start - 1 for at, start in self._starts.pop(number, {}).items()})
        last[level] = last.get(level, levels[level].start - 1) + 1
        for deeper in [at for at in last if at > level]:
            del last[deeper]
        places = {int(place) - 1 for place in _PLACE.findall(levels[level].text)}
        if not places or any(at not in levels or levels[at].format != "decimal" for at in places):
            return ""
        return _PLACE.sub(lambda place: str(last.get(at := int(place[1]) - 1, levels[at].start)), levels[level].text)


def _levels(numbers: Any) -> dict[int, _Level]:
    return {
        whole_number(each.get(qn("w:ilvl")), 0): _Level(
            whole_number(value_of(each, qn("w:start")), 1),
            value_of(each, qn("w:numFmt")) or "decimal",
            value_of(each, qn("w:lvlText")) or "",
            value_of(each, qn("w:pStyle")),
        )
        for each in numbers.findall(qn("w:lvl"))[:_LEVELS]
    }


def _starts(number: Any) -> dict[int, int]:
    """Return the numbers with which a list begins anew, by level."""
    overrides = number.findall(qn("w:lvlOverride"))[:_LEVELS]
    starts = [(each.get(qn("w:ilvl")), value_of(each, qn("w:startOverride"))) for each in overrides]
    return {whole_number(level, 0): whole_number(start, 1) for level, start in starts if start is not None}


def value_of(element: Any, path: str) -> str | None:
    """Return the value of the element at a path; None if there is none."""
    child = element.find(path)
    value: str | None = None if child is None else child.get(qn("w:val"))
    return value
