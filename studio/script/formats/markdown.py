"""Markdown → paragraphs: the text that a person would read aloud from the rendered page, without code and addresses.

The syntax is that of CommonMark and GitHub (strike-through, task lists, tables, footnotes) as far as it changes what is
read aloud.
"""

import json

import regex

from storage.scripts.limits import MAX_CHAPTER, MAX_PAUSE
from studio.script.formats.card_marks import read_names
from studio.script.formats.dialogue import find_speakers, split_by_speaker
from studio.script.formats.document import PARAGRAPH_PAUSE, Document, Paragraph
from studio.script.formats.markdown_blocks import MarkdownBlock, read_blocks

CHAPTER_LEVELS = 2  # of headings that begin chapters
_FRONT_MATTER = regex.compile(r"\s*---\n(?=\S+:).*?\n(?:---|\.\.\.)(?:\n|$)", regex.DOTALL)
_SPEAKERS = regex.compile(r"(?m)^speakers:[^\S\n]*(.+)\n")
_VALUE = r"""[^\S\n]*("(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[^\s"'\[\]{}|>&*!%@`#,?:\-][^\n]*)[^\S\n]*\n"""  # of YAML
_TITLE, _AUTHOR = (regex.compile(f"(?m)^{name}:{_VALUE}") for name in ("title", "author"))
_PARAGRAPH_PAUSE = regex.compile(r"(?m)^paragraph-pause:[^\S\n]*([0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?)[^\S\n]*\n")

# Syntax that does not occur in plain text by chance.
_MARKDOWN = regex.compile(r"(?m)^ {0,3}#{1,6} \S|^ {0,3}(?:```|~~~)|\[[^\[\]\n]+\]\([^\s()]+[()]|\*\*\S[^*\n]*\*\*")


def is_markdown(text: str) -> bool:
    """Return whether text of unknown format looks like Markdown."""
    front = _FRONT_MATTER.match(text)
    return _MARKDOWN.search(text) is not None or (front is not None and _PARAGRAPH_PAUSE.search(front[0]) is not None)


def read_markdown(text: str) -> Document:
    """Read paragraphs, headings, list items and table rows, without their markup; headings have longer pauses.

    Headings of the first two levels begin chapters. Of the front matter, `title` and `author` are read if they are
    texts of one line, and `speakers: Anna; Ben` names speakers.
    `paragraph-pause: 0.6`, which `to_markdown` writes, makes it a saved script: its speakers are those of the front
    matter only, and its pauses are those of marks only.

    Raises InvalidText when the parser fails.
    """
    omitted: list[str] = []
    names: str | None = None
    seconds: str | None = None
    title: str | None = None
    author: str | None = None
    if front := _FRONT_MATTER.match(text):
        text = text[front.end() :]
        names, rest = _taken(_SPEAKERS, front[0])
        seconds, rest = _taken(_PARAGRAPH_PAUSE, rest)
        title, rest = _taken(_TITLE, rest)
        author, rest = _taken(_AUTHOR, rest)
        if len(rest.strip().splitlines()) > 2:  # more than the delimiters
            omitted.append(rest.strip())
    is_saved = seconds is not None
    paragraph_pause = min(float(seconds), MAX_PAUSE) if seconds else PARAGRAPH_PAUSE
    blocks = read_blocks(text, omitted, extended=not is_saved)
    listed = read_names(names or "")
    found = frozenset() if is_saved else find_speakers(line for block in blocks for line in (*block.lines, ""))
    paragraphs = [
        _paragraph(" ".join(part.lines), block, part.speaker, paragraph_pause if is_saved else block.pause)
        for block in blocks
        for part in split_by_speaker(block.lines, found, listed)
    ]
    return Document(
        tuple(paragraphs),
        tuple(filter(None, omitted)),
        paragraph_pause,
        is_saved,
        title=_unquoted(title or ""),
        author=_unquoted(author or ""),
    )


def _taken(line: "regex.Pattern[str]", front: str) -> tuple[str | None, str]:
    """Return the value of a line of the front matter, None without it, and the rest."""
    found = line.search(front)
    return (found[1], front[: found.start()] + front[found.end() :]) if found else (None, front)


def _unquoted(value: str) -> str:
    """Return a text of YAML without its quotation marks."""
    if value.startswith("'"):
        return value[1:-1].replace("''", "'")
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:  # an escape of YAML that JSON does not have
        return value[1:-1]


def _paragraph(text: str, block: MarkdownBlock, speaker: str | None, pause: float) -> Paragraph:
    chapter = text[:MAX_CHAPTER].strip() if 1 <= block.level <= CHAPTER_LEVELS else None
    return Paragraph(text, pause, speaker, chapter=chapter)
