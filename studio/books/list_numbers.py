"""The numbers that a reader shows before the items of an ordered list in XHTML."""

from __future__ import annotations

import re
from typing import Any

_LISTS = ("ol", "ul")
_WHOLE = re.compile(r"-?\d{1,9}")
NUMBERED = re.compile(r"\(?\d+[.)](?!\d)")  # the beginning of a text that has its number
_NO_MARKER = re.compile(r"list-style(?:-type)?\s*:[^;]*\bnone\b", re.IGNORECASE)


class ListNumbers:
    """The numbers of the open lists. `start` and `end` are called for each element, in the order of the document."""

    def __init__(self) -> None:
        self._numbers: list[int | None] = []  # of the last item of each open list; None if its items have no numbers
        self._waiting = ""  # the number of an item whose text has not begun

    def start(self, tag: str, element: Any) -> None:
        """Begin a list or an item."""
        if tag in _LISTS:
            self._numbers.append(_before_first(tag, element))
        elif tag == "li":
            self._waiting = ""
            if self._numbers and (last := self._numbers[-1]) is not None:
                self._numbers[-1] = number = whole_number(element.get("value"), last + 1)
                self._waiting = f"{number}. "

    def end(self, tag: str) -> None:
        """End a list or an item."""
        if tag in _LISTS and self._numbers:
            self._numbers.pop()
        elif tag == "li":
            self._waiting = ""

    def numbered(self, text: str) -> str:
        """Return a block of text with the number of its item, if the item begins with it and does not have it."""
        number, self._waiting = self._waiting, ""
        return text if NUMBERED.match(text) else number + text


def _before_first(tag: str, element: Any) -> int | None:
    """Return the number before a list's first one; None if its items have none, letters or descending ones."""
    if tag == "ul" or element.get("type", "1") != "1" or element.get("reversed") is not None:
        return None
    return None if _NO_MARKER.search(element.get("style") or "") else whole_number(element.get("start"), 1) - 1


def whole_number(text: str | None, otherwise: int) -> int:
    """Return the number that a text is; `otherwise` for another text and for none."""
    return int(text) if text and _WHOLE.fullmatch(text) else otherwise
