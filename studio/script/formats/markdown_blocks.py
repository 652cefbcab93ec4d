"""Markdown → blocks of text, from the events of pulldown-cmark (through pyromark).

Tables and footnotes are read from the text of paragraphs: the parser's own events for them take superlinear time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import regex
from pyromark import Markdown, Options

from engine.errors import InvalidText
from storage.scripts.limits import MAX_CARDS
from studio.script.formats.document import HEADING_PAUSE, PARAGRAPH_PAUSE, SECTION_PAUSE, is_break, too_many_cards
from studio.script.formats.raw_html import text_of_html, text_of_tag

_ITEM_PAUSE = 0.4
_MAX_BLOCKS = 3 * MAX_CARDS  # blocks without words join a neighbour

_PARSER = Markdown(options=Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS)
_INLINE = frozenset({"Emphasis", "Strong", "Strikethrough", "Link", "Image"})

# The parser's time grows with the number of lines times the depth of quotes and lists. Deeper markers become text.
_MAX_MARKERS = 8  # per line
_MARKER = r"(?:[ \t]*+(?:>|(?:[-+*]|\d{1,9}+[.)])(?=[ \t\n])))"
_DEEP = regex.compile(rf"(?m)^(?P<kept>{_MARKER}{{{_MAX_MARKERS}}})(?P<deeper>{_MARKER}++)")
_SIGN = regex.compile(r"[>*+-]")
_AFTER_NUMBER = regex.compile(r"(?=[.)])")

_ITEM_NUMBER = regex.compile(rb"\s*+(?P<number>\d{1,9}[.)])?")
_FOOTNOTE = regex.compile(r"\[\^[^\[\]\s]+\]:?")
_TABLE_RULE = regex.compile(r"(?=[^|]*+\|)[\s|:\-]++")
_WORD = regex.compile(r"[\p{L}\p{N}]")

_Event = tuple[str, Any, int, int]
"""Kind, value, and its place in the source: start and end in bytes."""


@dataclass
class MarkdownBlock:
    """A paragraph, heading, list item or table row, without markup. pause: seconds after it.

    level: of a heading, 1 for the highest; 0 for other blocks.
    """

    lines: list[str]
    pause: float = PARAGRAPH_PAUSE
    level: int = 0


def read_blocks(text: str, omitted: list[str], *, extended: bool = True) -> list[MarkdownBlock]:
    """Return the text to read aloud; code, addresses and comments are added to `omitted`.

    extended: whether there are tables, footnotes and separators of any sign, besides CommonMark. They are found in text
    without its escapes. Raises InvalidText when the parser fails, or for more blocks than a script can have.
    """
    return _BlockReader(omitted, extended=extended).read(text)


def _events(text: str) -> Iterator[_Event]:
    try:
        for event, where in _PARSER.events_with_range(text):
            kind, value = (event, None) if isinstance(event, str) else next(iter(event.items()))
            yield kind, value, where["start"], where["end"]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of the Rust library; not a subclass of Exception
            raise
        raise InvalidText("cards.markdown") from error


def _shallow(found: "regex.Match[str]") -> str:
    """Remove the markers beyond _MAX_MARKERS at the start of a line; numbers stay as text."""
    return found["kept"] + " " + _AFTER_NUMBER.sub(r"\\", _SIGN.sub("", found["deeper"]))


class _BlockReader:
    """Collects the parser's events into blocks."""

    def __init__(self, omitted: list[str], *, extended: bool, indented: bool = True) -> None:
        """indented: parse indented code again as text, since many people indent paragraphs."""
        self._omitted = omitted
        self._is_extended = extended
        self._parses_indented = indented
        self._done: list[MarkdownBlock] = []
        self._source = b""
        self._passed = 0  # bytes of the source that are read or are markup
        self._text: list[str] | None = None  # of the open block
        self._run: list[str] = []  # adjacent texts of the source
        self._run_end = 0
        self._pause = PARAGRAPH_PAUSE  # of the next block
        self._level = 0  # of the next block
        self._number = ""  # of the list item that starts
        self._unread = 0  # depth within elements that are not read
        self._raw: list[str] | None = None  # lines of HTML or of indented code

    def read(self, text: str) -> list[MarkdownBlock]:
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
            assert self._text is not None, "a block was opened"
            if kind == "InlineHtml":
                self._text.append(text_of_tag(value, self._omitted))
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
            self._pause, self._level = HEADING_PAUSE, int(data["level"][1:])
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
        """Omit the address or label of a link, or a whole footnote mark."""
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
            self._text = [text_of_html(raw, self._omitted)]
            self._close()
            return
        text = "\n".join(map(str.lstrip, raw.split("\n")))
        if self._parses_indented:
            inner = _BlockReader(self._omitted, extended=self._is_extended, indented=False)
            inner._number, inner._pause = self._number, self._pause
            self._number, self._pause = "", PARAGRAPH_PAUSE
            self._done += inner.read(text)
        else:
            self._text = [text]
            self._close()

    def _open(self, start: int) -> None:
        """Begin a block unless one is open; tight list items hold text without a paragraph."""
        if self._text is None:
            self._pass(start)
            self._text = []

    def _pass(self, end: int) -> None:
        """Omit source text that has no event: definitions of links."""
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

        assert self._text is not None, "text is within a block"
        text, self._run = "".join(self._run), []
        self._text.append(_FOOTNOTE.sub(leave_out, text) if self._is_extended and "[^" in text else text)

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
        """Divide lines into blocks and table rows, whose cells are read like a list."""
        pause, self._pause = self._pause, PARAGRAPH_PAUSE
        level, self._level = self._level, 0
        lines[0] = f"{self._number} {lines[0]}".strip()
        self._number = ""
        if not self._is_extended:
            self._keep(MarkdownBlock(lines, pause, level))
            return
        block = MarkdownBlock([], pause, level)
        for line in lines:
            if is_break(line):
                block = self._keep(block)
                self._pause_longer()
            elif line.startswith("|") and "|" in line[1:]:
                block = self._keep(block)
                if not _TABLE_RULE.fullmatch(line):
                    cells = map(str.strip, line.strip("|").split("|"))
                    self._keep(MarkdownBlock([", ".join(filter(None, cells))], _ITEM_PAUSE))
            elif not _TABLE_RULE.fullmatch(line):
                block.lines.append(line)
        self._keep(block)

    def _keep(self, block: MarkdownBlock) -> MarkdownBlock:
        """Store a block that has lines; return a new one to follow it."""
        if block.lines:
            self._done.append(block)
        if len(self._done) > _MAX_BLOCKS:
            raise too_many_cards()
        return MarkdownBlock([], block.pause)

    def _close_item(self) -> None:
        """End a list item. The number of an item without text becomes a block."""
        if self._number:
            self._text = [""]
            self._done.append(MarkdownBlock([self._number], _ITEM_PAUSE))
        self._number, self._pause = "", PARAGRAPH_PAUSE

    def _pause_longer(self) -> None:
        if self._done:
            self._done[-1].pause = max(SECTION_PAUSE, self._done[-1].pause)
