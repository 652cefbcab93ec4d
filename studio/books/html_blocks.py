"""HTML → blocks of text, without what is not read aloud, such as page numbers and notes with their marks."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import Any, NamedTuple

from lxml import etree

from studio.books.book_text import ENDS, raised
from studio.books.list_numbers import ListNumbers
from studio.books.styles import HIDDEN, HiddenClasses, is_hidden

_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6"
    " header hr li main ol p pre section table tbody td tfoot th thead tr ul".split()
)
_LEFT_OUT = frozenset("script style head nav svg audio video object iframe rt rp noscript template annotation".split())
_ONE_LINE = frozenset("mrow mi mn mo mtext mstyle mspace semantics annotation".split())  # parts of a formula
# Page numbers, marks of notes, and links back from notes: values of epub:type and roles, without hyphens. As classes,
# where they may also style other text, they only count if the text is `_MARK`. The last rows are of InDesign,
# LibreOffice and Word.
_MARKS = frozenset(
    "noteref pagebreak backlink docnoteref docpagebreak docbacklink pagenum pageno pagenumber fnanchor"
    " footnoteref footnotereference _idfootnotelink _idfootnoteanchor _idendnotelink _idendnoteanchor"
    " sdfootnoteanc sdfootnotesym sdendnoteanc sdendnotesym msofootnotereference msoendnotereference".split()
)
_NOTES = frozenset("footnote endnote rearnote docfootnote docendnote".split())  # which readers show on demand
_MARK = re.compile(
    r"[\[({]?(?:p(?:age|g|p)?\.?\s?)?(?:\d{1,4}|[ivxlcdm]{1,8}|[a-z]|[*†‡§]{1,3})?[\])}]?", re.IGNORECASE
)  # [Pg 5], xii, [A]
_NOTE = re.compile(r"[\[(]?(?:\d{1,3}|[*†‡§]{1,3})[\])]?")
_NOTE_IN_BRACKETS = re.compile(rf"(?=\[){_NOTE.pattern}")
_MARK_PARTS = 20  # elements
_BREAK = "***"  # the text of a rule between two scenes
_FIRST_IDEOGRAPH = "\u3400"
_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())


class Block(NamedTuple):
    """A block of text. ids: of its elements, and of those without text before it."""

    tag: str
    text: str
    ids: list[str]


def read_blocks(root: Any, hidden: HiddenClasses = frozenset()) -> list[Block]:
    """Return the blocks of a document. It does not recurse, since documents may be nested arbitrarily deep.

    hidden: classes whose elements are not read.
    """
    reader = _BlockReader(hidden)
    for event, element in etree.iterwalk(root, events=("start", "end", "comment")):
        if event == "start":
            reader.start(element, _name(element))
        elif event == "end":
            reader.end(element, _name(element))
        else:
            reader.add(element.tail)
    reader.close("p")
    return reader.blocks


class _BlockReader:
    """Collects the text of elements into blocks, as a walk starts and ends them."""

    def __init__(self, hidden: HiddenClasses) -> None:
        self._hidden = hidden
        self.blocks: list[Block] = []
        self._numbers = ListNumbers()
        self._tag = "body"  # of the block that is being read
        self._parts: list[str] = []  # its text
        self._line = 0  # where the parts of its last line begin
        self._ids: list[str] = []
        self._skipped = 0  # elements around this place whose text is left out

    def start(self, element: Any, tag: str) -> None:
        left_out = self._leaves_out(element, tag)
        if tag in _BLOCKS and not self._skipped and not left_out:
            self.close(tag if tag not in ("div", "section", "body") else "p")
            if tag == "hr":
                self.blocks.append(Block(tag, _BREAK, []))
        self._numbers.start(tag, element)
        self._ids += filter(None, [element.get("id"), element.get("name") if tag == "a" else None])
        self._skipped += left_out
        if self._skipped:
            return
        if tag == "br":
            self._break_line(element)
        self.add(_letter(element) if tag == "img" else None)
        self.add(_raised(element) if tag == "sup" else element.text)

    def end(self, element: Any, tag: str) -> None:
        if not self._skipped and tag in _BLOCKS:
            self.close("p")
        self._numbers.end(tag)
        self._skipped -= self._leaves_out(element, tag)
        self.add(element.tail)

    def add(self, text: str | None) -> None:
        """Append text to the block, unless it is left out."""
        if text and not self._skipped:
            self._parts.append(text)

    def close(self, following: str) -> None:
        """End the block. following: tag of the next one."""
        if text := " ".join("".join(self._parts).split()):
            self.blocks.append(Block(self._tag, self._numbers.numbered(text), self._ids.copy()))
            self._ids.clear()
        self._parts.clear()
        self._tag, self._line = following, 0

    def _leaves_out(self, element: Any, tag: str) -> bool:
        return _is_left_out(element, tag) or is_hidden(element, tag, self._hidden)

    def _break_line(self, element: Any) -> None:
        line = "".join(self._parts[self._line :]).strip()
        if self._tag not in _HEADINGS and _ends_paragraph(line, element):
            self.close(self._tag)
        else:
            self.add(" ")
            self._line = len(self._parts)


def _is_left_out(element: Any, tag: str) -> bool:
    """Whether an element's text is not read: not shown, of another kind, a page number, or a note or its mark."""
    if tag in _LEFT_OUT or _is_hidden(element):
        return True
    if tag == "math":  # fractions, powers and the like are not a line of text
        return any(_name(part) not in _ONE_LINE for part in element.iterdescendants())
    kinds = _values(element, "epub:type") | _values(element, "role")
    if not kinds.isdisjoint(_MARKS if tag != "aside" else _MARKS | _NOTES):
        return True
    if not _values(element, "class").isdisjoint(_MARKS) and tag not in _HEADINGS:
        return _reads(element, _MARK)
    if tag == "a" and "#" in (element.get("href") or ""):
        return _reads(element, _NOTE_IN_BRACKETS)
    if tag != "sup" or not _reads(element, _NOTE):
        return False
    return any(link.get("href") for link in chain(element.iterdescendants("a"), element.iterancestors("a")))


def _reads(element: Any, mark: re.Pattern[str]) -> bool:
    """Whether an element's text is a mark. With more parts than a mark has, it is not read: many may be nested."""
    is_large = next(islice(element.iter(), _MARK_PARTS, None), None) is not None
    return not is_large and mark.fullmatch(text_of(element)) is not None


def _name(element: Any) -> str:
    """Return the name of an element without a prefix; "" for comments and the like."""
    return element.tag.rpartition("}")[2].rpartition(":")[2] if isinstance(element.tag, str) else ""


def _is_hidden(element: Any) -> bool:
    """Whether an element is hidden, or, without a label in its place, is not for speech."""
    if element.get("hidden") is not None or HIDDEN.search(element.get("style") or ""):
        return True
    parent = element.getparent()
    return element.get("aria-hidden") == "true" and (parent is None or parent.get("aria-label") is None)


def _values(element: Any, attribute: str) -> set[str]:
    return set((element.get(attribute) or "").lower().replace("-", "").split())


def text_of(element: Any) -> str:
    """Return the text of an element, with its spaces."""
    return "".join(element.itertext()).strip()


def _letter(picture: Any) -> str:
    """Return the letter that a picture shows: an initial, or a character that is missing in fonts; "" for others."""
    letter, parent = (picture.get("alt") or "").strip(), picture.getparent()
    following = parent.tail if parent.tag == "span" and not picture.tail else picture.tail
    is_letter = len(letter) == 1 and letter.isalpha()
    return letter if is_letter and (letter >= _FIRST_IDEOGRAPH or (following or "")[:1].isalpha()) else ""


def _raised(element: Any) -> str:
    """Return the text of a raised part: an exponent, or in a fraction, 1<sup>1</sup>/<sub>2</sub>, a number."""
    text = element.text or ""
    return f" {text}" if text.isdigit() and (element.tail or "").startswith(("/", "\u2044")) else raised(text)


def _ends_paragraph(line: str, end: Any) -> bool:
    """Whether a paragraph ends at the end of a line: one without text, or with whole sentences in no paragraph."""
    return not line or (line.endswith(ENDS) and _name(end.getparent()) in ("body", "div", "section"))
