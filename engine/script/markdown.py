"""Markdown → blocks: what a reader of the rendered page would read aloud. Code and addresses are left out, and told.

The block structure and the marks are CommonMark's and GitHub's (tables, strike-through, footnotes), as far as they
change what is said; a script has no use for the rest.
"""

import html
from dataclasses import dataclass, field

import regex

from engine.script.blocks import PARAGRAPH_PAUSE, SECTION_PAUSE, Block, Reading, is_break
from engine.script.dialogue import find_speakers, split_turns

_HEADING_PAUSE = 0.8
_ITEM_PAUSE = 0.4

_FRONT_MATTER = regex.compile(r"\s*---\n(?=\S+:).*?\n(?:---|\.\.\.)(?:\n|$)", regex.DOTALL)
_COMMENT = regex.compile(r"<!--(?:(?!<!--|-->).)*+-->", regex.DOTALL)
_FENCE = regex.compile(r"\s*(?:>\s?)*(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)")
_HEADING = regex.compile(r"\s{0,3}#{1,6}(?:\s+(?P<text>.*?))?(?:\s+#+)?\s*")
_UNDERLINE = regex.compile(r"\s{0,3}(?:=+|-+)\s*")
_DEFINITION = regex.compile(r"\s{0,3}\[[^\]\n]+\]:\s*\S+(?:\s+[\"'(].*[\"')])?\s*")
_ITEM = regex.compile(r"\s*(?:[-*+](?:\s+\[[ xX]\])?|(?P<number>\p{Nd}{1,9}[.)]))\s+(?P<text>.*)")
_QUOTE = regex.compile(r"\s*(?:>\s?)+")
_TABLE_RULE = regex.compile(r"(?=[^|]*+\|)[\s|:\-]++")

_ESCAPED = regex.compile(r"\\([!-/:-@\[-`{-~])")
_CODE = regex.compile(r"(?<!`)(`{1,9})(?!`)(.{1,500}?)(?<!`)\1(?!`)", regex.DOTALL)
_TARGET = r"\((?P<target>\s*(?:<[^<>\n]*>|(?:[^()\s]|\([^()\s]*\))*)(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*)\)"
_LINK = regex.compile(rf"!?\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]{_TARGET}")
_REFERENCE = regex.compile(r"!?\[(?P<text>[^\[\]\n]+)\]\[(?P<label>[^\[\]\n]*)\]")
_FOOTNOTE = regex.compile(r"\[\^[^\[\]\s]+\]")
_AUTOLINK = regex.compile(r"<((?:https?|mailto|ftp):[^<>\s]+|[^<>\s@]+@[^<>\s@]+)>")
_INLINE = frozenset("a abbr b cite code del em font i ins kbd mark q s small span strike strong sub sup tt u".split())
_TAG = regex.compile(
    r"(?i)</?(?P<name>a|abbr|b|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|hr|i"
    r"|img|ins|kbd|li|mark|ol|p|pre|q|rp|rt|ruby|s|small|span|strike|strong|sub|summary|sup|table|tbody|td|th|thead"
    r"|tr|tt|u|ul|video|wbr)(?P<attributes>\s[^<>]*)?/?>"
)
_STRONG = regex.compile(r"(\*{1,3}|~~)(?=\S)((?:(?!\1).)+?)(?<=\S)\1", regex.DOTALL)
_UNDERSCORED = regex.compile(r"(?<![\p{L}\p{N}_])(_{1,3})(?=\S)((?:(?!\1).)+?)(?<=\S)\1(?![\p{L}\p{N}_])", regex.DOTALL)

# What shows that a text without a name is Markdown: marks that nobody types by chance.
_MARKDOWN = regex.compile(r"(?m)^ {0,3}#{1,6} \S|^ {0,3}(?:```|~~~)|\[[^\]\n]+\]\(\S+\)|\*\*\S[^*\n]*\*\*")
_HIDDEN = "\ue000"  # stands for what is not to be touched; private use, which no text that is read aloud holds
_KEPT = regex.compile(rf"{_HIDDEN}(\d+){_HIDDEN}")


def is_markdown(text: str) -> bool:
    """Whether text of unknown kind looks like Markdown."""
    return _MARKDOWN.search(text) is not None


@dataclass
class _Paragraph:
    """Lines, still with their marks, of a paragraph, a heading, a list item or a table's row."""

    lines: list[str] = field(default_factory=list)
    pause: float = PARAGRAPH_PAUSE


def read_markdown(text: str) -> Reading:
    """Paragraphs, headings, list items and table rows as blocks, without their marks; headings have longer pauses."""
    omitted: list[str] = []

    def omit(found: "regex.Match[str]") -> str:
        omitted.append(found[0].strip())
        return "\n"

    if _FRONT_MATTER.match(text):
        text = _FRONT_MATTER.sub(omit, text, count=1)
    page = _Page(omitted)
    for line in _COMMENT.sub(omit, text).split("\n"):
        page.add(line)
    paragraphs = [(_plain_lines(each.lines, omitted), each.pause) for each in page.end()]
    speakers = find_speakers(line for lines, _ in paragraphs for line in (*lines, ""))
    blocks = [
        Block(" ".join(turn.lines), pause, turn.speaker)
        for lines, pause in paragraphs
        for turn in split_turns(lines, speakers)
    ]
    return Reading(tuple(blocks), tuple(filter(None, omitted)))


def _plain_lines(lines: list[str], omitted: list[str]) -> list[str]:
    stripped = (" ".join(line.split()) for line in plain("\n".join(lines), omitted).split("\n"))
    return list(filter(None, stripped))


class _Page:
    """Lines in, paragraphs out."""

    def __init__(self, omitted: list[str]) -> None:
        self._done: list[_Paragraph] = []
        self._open = _Paragraph()
        self._omitted = omitted
        self._fence = ""  # how the code block that is open ends
        self._code: list[str] = []

    def add(self, line: str) -> None:
        if self._fence or _FENCE.fullmatch(line):
            self._add_code(line)
        elif self._open.lines and _UNDERLINE.fullmatch(line):
            self._close_heading()
        else:
            self._add_text(_QUOTE.sub("", line, count=1) if _QUOTE.match(line) else line)

    def end(self) -> list[_Paragraph]:
        self._close()
        if self._fence:
            self._omitted.append("\n".join(self._code))
        return self._done

    def _add_code(self, line: str) -> None:
        found = _FENCE.fullmatch(line)
        if not self._fence and found:
            self._close()
            self._fence, self._code = found["fence"], [line]
            return
        self._code.append(line)
        if found and found["fence"].startswith(self._fence) and not found["info"].strip():
            self._omitted.append("\n".join(self._code))
            self._fence = ""

    def _add_text(self, line: str) -> None:
        if heading := _HEADING.fullmatch(line):
            self._close()
            self._open.lines = [heading["text"] or ""]
            self._close_heading()
        elif not line.strip():
            self._close()
        elif is_break(line):
            self._close()
            self._pause_longer()
        elif _DEFINITION.fullmatch(line) and not self._open.lines:
            self._omitted.append(line.strip())
        elif item := _ITEM.fullmatch(line):
            self._close()
            number = f"{item['number']} " if item["number"] else ""
            self._open = _Paragraph([number + item["text"]], _ITEM_PAUSE)
        elif not _TABLE_RULE.fullmatch(line):
            self._add_line(line.strip())

    def _add_line(self, line: str) -> None:
        """A line of a paragraph, or a row of a table: its cells are read like a list."""
        if line.startswith("|") and "|" in line[1:]:
            self._close()
            cells = map(str.strip, line.strip("|").split("|"))
            self._open = _Paragraph([", ".join(filter(None, cells))], _ITEM_PAUSE)
        else:
            self._open.lines.append(line)

    def _pause_longer(self) -> None:
        if self._done:
            self._done[-1].pause = max(SECTION_PAUSE, self._done[-1].pause)

    def _close_heading(self) -> None:
        self._pause_longer()
        self._open.pause = _HEADING_PAUSE
        self._close()

    def _close(self) -> None:
        if self._open.lines:
            self._done.append(self._open)
        self._open = _Paragraph()


def plain(text: str, omitted: list[str]) -> str:
    """A paragraph's text without marks; addresses, footnotes' numbers and tags with attributes go to `omitted`."""
    kept: list[str] = []

    def keep(words: str) -> str:
        kept.append(words)
        return f"{_HIDDEN}{len(kept) - 1}{_HIDDEN}"

    def reveal(text: str) -> str:
        while _KEPT.search(text):  # what is kept may hold what was kept before it
            text = _KEPT.sub(lambda found: kept[int(found[1])], text)
        return text

    def leave_out(found: "regex.Match[str]", part: str | int, instead: str) -> str:
        omitted.append(reveal(found[part] or "").strip())
        return instead

    text = _CODE.sub(lambda found: keep(found[2].strip()), text.replace(_HIDDEN, ""))
    text = _ESCAPED.sub(lambda found: keep(found[1]), text)
    text = _AUTOLINK.sub(lambda found: keep(found[1]), text)
    for _ in range(2):  # an image may be a link's text
        text = _LINK.sub(lambda found: leave_out(found, "target", found["text"]), text)
    text = _REFERENCE.sub(lambda found: leave_out(found, "label", found["text"]), text)
    text = _FOOTNOTE.sub(lambda found: leave_out(found, 0, ""), text)
    text = _TAG.sub(lambda found: leave_out(found, "attributes", _instead_of(found["name"])), text)
    for marks in (_STRONG, _UNDERSCORED, _STRONG):
        text = marks.sub(r"\2", text)
    return html.unescape(reveal(text))


def _instead_of(tag: str) -> str:
    return "" if tag.lower() in _INLINE else " "
