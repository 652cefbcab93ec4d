"""Style sheets of EPUBs: which classes they hide, by rules for a class, or for a class of one kind of element."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

# In declarations, but for those of other properties, such as backface-visibility.
HIDDEN = re.compile(r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*+(?:\*/)?+")
_SIMPLE = re.compile(r"([A-Za-z][A-Za-z0-9]*)?\.([\w-]+)")  # selector of a class
_CLASS = re.compile(r"\.([\w-]+)")
_SHOWN = re.compile(r"(?<![\w-])(?:display|visibility)\s*:", re.IGNORECASE)
_MEDIA = ("", "all", "screen")

HiddenClasses = frozenset[tuple[str, str]]
"""Hidden classes, each with the name of the elements that it hides; "" for all."""


def hidden_classes(sheets: Collection[str]) -> HiddenClasses:
    """Return the classes that style sheets hide, without those that any of their rules shows."""
    hidden: set[tuple[str, str]] = set()
    shown: set[str] = set()
    for selectors, declarations in (rule for sheet in sheets for rule in _rules(_COMMENT.sub("", sheet))):
        if not _SHOWN.search(declarations):
            continue
        for selector in selectors.split(","):
            simple = _SIMPLE.fullmatch(selector.strip())
            if not HIDDEN.search(declarations):
                shown.update(_CLASS.findall(selector))
            elif simple:
                hidden.add(((simple[1] or "").lower(), simple[2]))
    return frozenset((tag, name) for tag, name in hidden if name not in shown)


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and the declarations of each rule, except those inside of others, as for printers."""
    selectors, begin, depth, is_simple = "", 0, 0, True
    for brace in re.finditer("[{}]", sheet):
        if brace[0] == "{":
            depth += 1
            is_simple = depth == 1
            if is_simple:
                selectors, begin = sheet[begin : brace.start()].rpartition(";")[2].strip(), brace.end()
            continue
        if depth == 1:
            if is_simple and not selectors.startswith("@"):
                yield selectors, sheet[begin : brace.start()]
            begin = brace.end()
        depth = max(0, depth - 1)


def is_hidden(element: Any, tag: str, hidden: HiddenClasses) -> bool:
    """Whether an element has one of the hidden classes."""
    names = (element.get("class") or "").split() if hidden else ()
    return any(("", name) in hidden or (tag, name) in hidden for name in names)


def links_to_sheets(document: Any) -> Iterator[str]:
    """Yield the addresses of the style sheets that a document is shown with."""
    for link in document.iter("link"):
        if (link.get("rel") or "").lower().split() == ["stylesheet"] and (link.get("media") or "").lower() in _MEDIA:
            yield link.get("href") or ""


def own_sheets(document: Any) -> Iterator[str]:
    """Yield the style sheets inside of a document."""
    for style in document.iter("style"):
        if (style.get("media") or "").lower() in _MEDIA:
            yield style.text or ""
