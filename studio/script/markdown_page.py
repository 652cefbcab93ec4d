"""Markdown → paragraphs, by the events of pulldown-cmark (through pyromark).

Tables and footnotes are read from the text of paragraphs: the parser's own events for them cost more than their size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import regex
from pyromark import Markdown, Options

from engine.errors import InvalidText
from studio.script.blocks import MAX_CARDS, PARAGRAPH_PAUSE, SECTION_PAUSE, is_break, too_many_cards
from studio.script.raw_html import words_of_html, words_of_tag

_HEADING_PAUSE = 0.8
_ITEM_PAUSE = 0.4
_MAX_PARAGRAPHS = 3 * MAX_CARDS  # some say nothing, and stay with a neighbour

_PARSER = Markdown(options=Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS)
_INLINE = frozenset({"Emphasis", "Strong", "Strikethrough", "Link", "Image"})

# The parser's work is the number of lines times the depth of their quotes and lists: deeper markers are text.
_MAX_MARKERS = 8  # of one line
_MARKER = r"(?:[ \t]*+(?:>|(?:[-+*]|\d{1,9}+[.)])(?=[ \t\n])))"
_DEEP = regex.compile(rf"(?m)^(?P<kept>{_MARKER}{{{_MAX_MARKERS}}})(?P<deeper>{_MARKER}++)")
_SIGN = regex.compile(r"[>*+-]")
_AFTER_NUMBER = regex.compile(r"(?=[.)])")

_ITEM_NUMBER = regex.compile(rb"\s*+(?P<number>\d{1,9}[.)])?")
_FOOTNOTE = regex.compile(r"\[\^[^\[\]\s]+\]:?")
_TABLE_RULE = regex.compile(r"(?=[^|]*+\|)[\s|:\-]++")
_WORD = regex.compile(r"[\p{L}\p{N}]")

_Event = tuple[str, Any, int, int]
"""Kind, value, and where it stands in the source: start and end in bytes."""


@dataclass
class Paragraph:
    """A paragraph, a heading, a list item or a table's row, without marks. pause: seconds after it."""

    lines: list[str]
    pause: float = PARAGRAPH_PAUSE


def paragraphs_of(text: str, omitted: list[str]) -> list[Paragraph]:
    """All that is read aloud; what is not (code, addresses, comments) is added to `omitted`.

    Raises InvalidText for what the parser fails at, and for more paragraphs than a script can have.
    """
    return _Page(omitted).read(text)


def _events(text: str) -> Iterator[_Event]:
    try:
        for event, where in _PARSER.events_with_range(text):
            kind, value = (event, None) if isinstance(event, str) else next(iter(event.items()))
            yield kind, value, where["start"], where["end"]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of the Rust library: it is no Exception
            raise
        raise InvalidText("This Markdown cannot be read: save it as plain text (.txt) and upload that.") from error


def _shallow(found: "regex.Match[str]") -> str:
    """Too many markers at a line's start, without those that are too many; numbers stay, as text."""
    return found["kept"] + " " + _AFTER_NUMBER.sub(r"\\", _SIGN.sub("", found["deeper"]))


class _Page:
    """The parser's events in, paragraphs out."""

    def __init__(self, omitted: list[str], *, indented: bool = True) -> None:
        """indented: what is indented like code, as many people indent paragraphs, is parsed once more."""
        self._omitted = omitted
        self._parses_indented = indented
        self._done: list[Paragraph] = []
        self._source = b""
        self._passed = 0  # bytes of the source that are read, or known to be marks
        self._text: list[str] | None = None  # of the paragraph that is open
        self._run: list[str] = []  # what stands side by side in the source
        self._run_end = 0
        self._pause = PARAGRAPH_PAUSE  # of the next paragraph
        self._number = ""  # of the list item that begins
        self._unread = 0  # depth in what is not read
        self._raw: list[str] | None = None  # lines of HTML, or of what is indented like code

    def read(self, text: str) -> list[Paragraph]:
        text = _DEEP.sub(_shallow, text)
        self._source = text.encode()
        for kind, value, start, end in _events(text):
            if kind == "Text":
                self._add_text(value, start, end)
            elif kind == "Start":
                self._start(value, start, end)
            elif kind == "End":
                self._end(value, end)
            else:
                self._add(kind, value, start, end)
        self._close()
        self._close_item()
        self._pass(len(self._source))
        return self._done

    def _add_text(self, text: str, start: int, end: int) -> None:
        if self._raw is not None:
            self._raw.append(text)
        elif not self._unread:
            self._open(start)
            if start != self._run_end:
                self._end_run()
            self._run.append(text)
            self._run_end = self._passed = end

    def _add(self, kind: str, value: Any, start: int, end: int) -> None:
        if kind == "Html" and self._raw is not None:
            self._raw.append(value)
        elif kind == "Rule":
            self._close()
            self._pass(start)
            self._pause_longer()
        elif kind == "TaskListMarker":
            self._pass(start)
        elif not self._unread:
            self._open(start)
            self._end_run()
            assert self._text is not None, "a paragraph was opened"
            if kind == "InlineHtml":
                self._text.append(words_of_tag(value, self._omitted))
            else:
                self._text.append(value if kind == "Code" else "\n")
        self._passed = max(self._passed, end)

    def _start(self, tag: Any, start: int, end: int) -> None:
        name, data = (tag, None) if isinstance(tag, str) else next(iter(tag.items()))
        if self._unread:
            self._unread += 1
        elif name in _INLINE:
            self._open(start)
            self._end_run()
            self._leave_out_target(data or {})
        else:
            self._close()
            self._pass(start)
            self._start_block(name, data, start, end)

    def _start_block(self, name: str, data: Any, start: int, end: int) -> None:
        if name == "Heading":
            self._pause_longer()
            self._pause = _HEADING_PAUSE
        elif name == "Item":
            found = _ITEM_NUMBER.match(self._source, start)
            number = (found["number"] or b"").decode() if found else ""
            self._number = f"{self._number} {number}".strip()
            self._passed = found.end() if found else start
            self._pause = _ITEM_PAUSE
        elif name == "HtmlBlock" or (name == "CodeBlock" and data == "Indented"):
            self._raw = []
        elif name == "CodeBlock":
            self._omitted.append(self._source[start:end].decode().strip())
            self._unread = 1

    def _leave_out_target(self, link: dict[str, str]) -> None:
        """An address that is written here, or the label of one; a footnote's mark altogether."""
        kind, label = link.get("link_type"), link.get("id", "")
        if label.startswith("^"):
            self._omitted.append(f"[{label}]")
            self._unread = 1
        elif kind == "Inline":
            self._omitted.append(f"{link['dest_url']} {link['title']}".strip())
        elif kind == "Reference":
            self._omitted.append(label)

    def _end(self, tag: Any, end: int) -> None:
        name = tag if isinstance(tag, str) else next(iter(tag))
        if self._unread:
            self._unread -= 1
        elif name in _INLINE:
            self._end_run()
        elif self._raw is not None:
            self._end_raw(name)
        else:
            self._close()
            self._pass(end)
            if name == "Item":
                self._close_item()
        self._passed = max(self._passed, end)

    def _end_raw(self, name: str) -> None:
        raw, self._raw = "".join(self._raw or ()), None
        if name == "HtmlBlock":
            self._text = [words_of_html(raw, self._omitted)]
            self._close()
            return
        text = "\n".join(map(str.lstrip, raw.split("\n")))
        if self._parses_indented:
            inner = _Page(self._omitted, indented=False)
            inner._number, inner._pause = self._number, self._pause
            self._number, self._pause = "", PARAGRAPH_PAUSE
            self._done += inner.read(text)
        else:
            self._text = [text]
            self._close()

    def _open(self, start: int) -> None:
        """Begin a paragraph, unless one is open; tight list items hold text without one."""
        if self._text is None:
            self._pass(start)
            self._text = []

    def _pass(self, end: int) -> None:
        """What the parser has no event for is the definition of a link: not read."""
        if end <= self._passed:
            return
        if gap := self._source[self._passed : end].strip(b" \t\n>"):
            lines = (line.strip(" \t>") for line in gap.decode().split("\n"))
            self._omitted += [line for line in lines if _WORD.search(line)]
        self._passed = end

    def _end_run(self) -> None:
        if not self._run:
            return

        def leave_out(found: "regex.Match[str]") -> str:
            self._omitted.append(found[0].rstrip(":"))
            return ""

        assert self._text is not None, "text stands in paragraphs"
        text, self._run = "".join(self._run), []
        self._text.append(_FOOTNOTE.sub(leave_out, text) if "[^" in text else text)

    def _close(self) -> None:
        if self._text is None:
            return
        self._end_run()
        text, self._text = "".join(self._text), None
        lines = [" ".join(line.split()) for line in text.split("\n")]
        if not any(lines):
            return
        self._divide([line for line in lines if line])

    def _divide(self, lines: list[str]) -> None:
        """Into paragraphs, and rows of tables: their cells are read like a list."""
        pause, self._pause = self._pause, PARAGRAPH_PAUSE
        lines[0] = f"{self._number} {lines[0]}".strip()
        self._number = ""
        paragraph = Paragraph([], pause)
        for line in lines:
            if is_break(line):
                paragraph = self._keep(paragraph)
                self._pause_longer()
            elif line.startswith("|") and "|" in line[1:]:
                paragraph = self._keep(paragraph)
                if not _TABLE_RULE.fullmatch(line):
                    cells = map(str.strip, line.strip("|").split("|"))
                    self._keep(Paragraph([", ".join(filter(None, cells))], _ITEM_PAUSE))
            elif not _TABLE_RULE.fullmatch(line):
                paragraph.lines.append(line)
        self._keep(paragraph)

    def _keep(self, paragraph: Paragraph) -> Paragraph:
        """Returns: the one that follows it."""
        if paragraph.lines:
            self._done.append(paragraph)
        if len(self._done) > _MAX_PARAGRAPHS:
            raise too_many_cards()
        return Paragraph([], paragraph.pause)

    def _close_item(self) -> None:
        """The number of an item without text is a paragraph of its own."""
        if self._number:
            self._text = [""]
            self._done.append(Paragraph([self._number], _ITEM_PAUSE))
        self._number, self._pause = "", PARAGRAPH_PAUSE

    def _pause_longer(self) -> None:
        if self._done:
            self._done[-1].pause = max(SECTION_PAUSE, self._done[-1].pause)
